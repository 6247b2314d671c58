//! What the standard library does not give: epoll, a timer, signals, an identity, a mapping. All that is unsafe is here.
//!
//! The declarations are those of the manual pages of Linux on 64 bits; each block says why it may.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long, c_uint, c_ulong, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("this engine is for Linux on 64 bits; the Python engine runs everywhere");
#[cfg(any(target_arch = "mips64", target_arch = "sparc64"))]
compile_error!("the numbers below are other ones on this processor; the Python engine runs everywhere");

pub const SIGINT: i32 = 2;
pub const SIGTERM: i32 = 15;
const SIGUSR1: i32 = 10;
const SIGUSR2: i32 = 12;
const O_NONBLOCK: c_int = 0o4000;
const O_CLOEXEC: c_int = 0o2000000;
const EPOLL_ADD: c_int = 1;
const EPOLL_MODIFY: c_int = 3;
const EPOLL_IN: u32 = 1;
const EPOLL_OUT: u32 = 4;
const EPOLL_EDGE: u32 = 1 << 31;
const CLOCK_MONOTONIC: c_int = 1;
const CLOCK_PROCESS: c_int = 2;
const ABSOLUTE: c_int = 1;
const PR_SET_PDEATHSIG: c_int = 1;
const PR_SET_DUMPABLE: c_int = 4;
const PR_SET_NO_NEW_PRIVS: c_int = 38;
const AF_UNIX: u16 = 1;
const SOCK_STREAM: c_int = 1;
const EAGAIN: i32 = 11;
const MSG_DONTWAIT: c_int = 0x40;
const MSG_NOSIGNAL: c_int = 0x4000;
const MOST_EVENTS: usize = 64;

#[derive(Clone, Copy)]
#[cfg_attr(target_arch = "x86_64", repr(C, packed))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C))]
struct Event {
    events: u32,
    token: u64,
}

#[repr(C)]
struct Moment {
    seconds: i64,
    nanoseconds: c_long,
}

#[repr(C)]
struct UnixAddress {
    family: u16,
    path: [u8; 108],
}

extern "C" {
    fn epoll_create1(flags: c_int) -> c_int;
    fn epoll_ctl(epoll: c_int, what: c_int, fd: c_int, event: *mut Event) -> c_int;
    fn epoll_wait(epoll: c_int, events: *mut Event, most: c_int, timeout: c_int) -> c_int;
    fn eventfd(initial: c_uint, flags: c_int) -> c_int;
    fn timerfd_create(clock: c_int, flags: c_int) -> c_int;
    fn timerfd_settime(fd: c_int, flags: c_int, new: *const [Moment; 2], old: *mut [Moment; 2]) -> c_int;
    fn clock_gettime(clock: c_int, moment: *mut Moment) -> c_int;
    fn signal(number: c_int, handler: extern "C" fn(c_int)) -> usize;
    fn prctl(option: c_int, ...) -> c_int;
    fn getppid() -> c_int;
    fn setgroups(size: usize, groups: *const c_uint) -> c_int;
    fn setresgid(real: c_uint, effective: c_uint, saved: c_uint) -> c_int;
    fn setresuid(real: c_uint, effective: c_uint, saved: c_uint) -> c_int;
    fn getresuid(real: *mut c_uint, effective: *mut c_uint, saved: *mut c_uint) -> c_int;
    fn mmap(at: *mut c_void, size: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void;
    fn madvise(at: *mut c_void, size: usize, advice: c_int) -> c_int;
    fn getrandom(buffer: *mut u8, size: usize, flags: c_uint) -> isize;
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn connect(fd: c_int, address: *const UnixAddress, size: c_uint) -> c_int;
    fn send(fd: c_int, buffer: *const u8, size: usize, flags: c_int) -> isize;
    fn recv(fd: c_int, buffer: *mut u8, size: usize, flags: c_int) -> isize;
}

static SIGNALLED: AtomicI32 = AtomicI32::new(0);
static PAUSED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(number: c_int) {
    match number {
        SIGUSR1 | SIGUSR2 => PAUSED.store(number == SIGUSR1, Ordering::Relaxed),
        _ => SIGNALLED.store(number, Ordering::Relaxed),
    }
}

/// Take SIGINT and SIGTERM as a wish to end, which `signalled` tells, and SIGUSR1 and SIGUSR2 as one to pause and go on.
pub fn listen_to_signals() {
    for number in [SIGINT, SIGTERM, SIGUSR1, SIGUSR2] {
        // SAFETY: the handler stores one atomic and does nothing else, which any moment allows.
        unsafe { signal(number, note) };
    }
}

/// Tell whether the run is to pause.
pub fn pause_asked() -> bool {
    PAUSED.load(Ordering::Relaxed)
}

/// Return the signal to end that came last; 0 for none.
pub fn signalled() -> i32 {
    SIGNALLED.load(Ordering::Relaxed)
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn owned(result: c_int) -> io::Result<OwnedFd> {
    let fd = checked(result)?;
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn clock(which: c_int) -> i64 {
    let mut found = Moment { seconds: 0, nanoseconds: 0 };
    // SAFETY: `found` is a timespec that the call fills in; with a clock that every kernel has it cannot fail.
    unsafe { clock_gettime(which, &mut found) };
    found.seconds * 1_000_000_000 + found.nanoseconds
}

/// Return nanoseconds of the monotonic clock.
pub fn monotonic_ns() -> i64 {
    clock(CLOCK_MONOTONIC)
}

/// Return the processor time of this process, in seconds.
pub fn process_cpu_s() -> f64 {
    clock(CLOCK_PROCESS) as f64 / 1e9
}

/// Return the process that started us.
pub fn parent() -> i32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { getppid() }
}

/// Have the kernel send us SIGTERM when who started us ends; false where that one is gone already.
pub fn end_with(expected: i32) -> bool {
    // SAFETY: this option takes a number, and touches no memory of ours.
    unsafe { prctl(PR_SET_PDEATHSIG, SIGTERM as c_ulong) };
    parent() == expected
}

/// Take on an account's identity for good: no way back, no new rights by exec, no look into our memory.
pub fn become_account(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    // SAFETY: pointer and length are those of one slice; there is one thread as yet.
    checked(unsafe { setgroups(groups.len(), groups.as_ptr()) })?;
    // SAFETY: these take numbers.
    checked(unsafe { setresgid(gid, gid, gid) })?;
    // SAFETY: as above.
    checked(unsafe { setresuid(uid, uid, uid) })?;
    let mut now = [0; 3];
    let [real, effective, saved] = &mut now;
    // SAFETY: three places for numbers that live until the call is over.
    checked(unsafe { getresuid(real, effective, saved) })?;
    if now != [uid; 3] || uid == 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("this process did not become user {uid}")));
    }
    let (on, off): (c_ulong, c_ulong) = (1, 0);
    // SAFETY: both options take numbers; a kernel without them refuses.
    unsafe { prctl(PR_SET_NO_NEW_PRIVS, on, off, off, off) };
    // SAFETY: as above.
    unsafe { prctl(PR_SET_DUMPABLE, off, off, off, off) };
    Ok(())
}

/// Return what an inherited descriptor stands for.
pub fn inherited(fd: RawFd) -> io::Result<File> {
    if fd < 3 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("descriptor {fd} is not one to inherit")));
    }
    // SAFETY: who started us hands the descriptor over by naming it, once, and nothing else here uses it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Map a file for reading, until this process ends. It must not be empty.
pub fn map(file: &File, size: usize) -> io::Result<&'static [u8]> {
    const PROT_READ: c_int = 1;
    const MAP_SHARED: c_int = 1;
    // SAFETY: the kernel chooses the place; nothing of ours is replaced.
    let at = unsafe { mmap(std::ptr::null_mut(), size, PROT_READ, MAP_SHARED, file.as_raw_fd(), 0) };
    if at as isize == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `size` bytes are mapped there and never unmapped; a tape is written once and then only read.
    Ok(unsafe { std::slice::from_raw_parts(at.cast::<u8>(), size) })
}

/// Give back the pages of a mapping of `map` that were read; what is read again comes from the system's cache.
pub fn let_go(mapped: &'static [u8]) {
    const DONT_NEED: c_int = 4;
    // SAFETY: the whole of a mapping of a file, which is shared and only read: its bytes stay what they are.
    unsafe { madvise(mapped.as_ptr().cast_mut().cast(), mapped.len(), DONT_NEED) };
}

/// Fill a buffer with what nobody can guess.
pub fn random(buffer: &mut [u8]) -> io::Result<()> {
    // SAFETY: pointer and length are those of one slice.
    let got = unsafe { getrandom(buffer.as_mut_ptr(), buffer.len(), 0) };
    if got == buffer.len() as isize {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Connect to a Unix socket; a server whose queue is full is asked again until the deadline.
pub fn connect_unix(path: &str, deadline: Instant) -> io::Result<UnixStream> {
    let mut address = UnixAddress { family: AF_UNIX, path: [0; 108] };
    if path.len() >= address.path.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "AF_UNIX path too long"));
    }
    address.path[..path.len()].copy_from_slice(path.as_bytes());
    // SAFETY: the call takes numbers.
    let fd = owned(unsafe { socket(AF_UNIX.into(), SOCK_STREAM | O_NONBLOCK | O_CLOEXEC, 0) })?;
    loop {
        // SAFETY: the address is whole and ended by a zero byte; its size is told with it.
        match checked(unsafe { connect(fd.as_raw_fd(), &address, std::mem::size_of::<UnixAddress>() as c_uint) }) {
            Ok(_) => break,
            Err(error) if error.raw_os_error() == Some(EAGAIN) && Instant::now() < deadline => {
                sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
        }
    }
    let stream = UnixStream::from(fd);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Send what a connection takes at once: as `write` does, without what that asks of a file.
#[inline]
pub fn send_some(connection: &File, data: &[u8]) -> io::Result<usize> {
    // SAFETY: pointer and length are those of one slice.
    let sent = unsafe { send(connection.as_raw_fd(), data.as_ptr(), data.len(), MSG_DONTWAIT | MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receive what is there of a connection; 0 at its end.
#[inline]
pub fn receive_some(connection: &File, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: as above; the kernel writes no more than the length.
    let got = unsafe { recv(connection.as_raw_fd(), buffer.as_mut_ptr(), buffer.len(), MSG_DONTWAIT) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// One epoll with a timer to the microsecond and a descriptor by which other threads wake it.
///
/// A timer is set once a moment. `epoll_pwait2` needs one system call less, but sets and clears the processor's timer at
/// each wait, those for answers too: in a virtual machine that cost a third more (bench/README.md).
pub struct Poll {
    epoll: OwnedFd,
    timer: OwnedFd,
    wake: File,
    armed: i64,
    events: [Event; MOST_EVENTS],
}

impl Poll {
    /// What `token` tells of the timer, of which nothing need be read.
    pub const TIMER: u64 = u64::MAX;
    /// What `token` tells of the descriptor that wakes.
    pub const WAKE: u64 = u64::MAX - 1;

    pub fn new() -> io::Result<Poll> {
        // SAFETY: these three take numbers and return new descriptors.
        let epoll = owned(unsafe { epoll_create1(O_CLOEXEC) })?;
        // SAFETY: as above.
        let timer = owned(unsafe { timerfd_create(CLOCK_MONOTONIC, O_NONBLOCK | O_CLOEXEC) })?;
        // SAFETY: as above.
        let wake = File::from(owned(unsafe { eventfd(0, O_NONBLOCK | O_CLOEXEC) })?);
        let poll = Poll { epoll, timer, wake, armed: 0, events: [Event { events: 0, token: 0 }; MOST_EVENTS] };
        poll.control(EPOLL_ADD, poll.timer.as_raw_fd(), EPOLL_IN | EPOLL_EDGE, Poll::TIMER)?;
        poll.control(EPOLL_ADD, poll.wake.as_raw_fd(), EPOLL_IN, Poll::WAKE)?;
        Ok(poll)
    }

    fn control(&self, what: c_int, fd: RawFd, events: u32, token: u64) -> io::Result<()> {
        let mut event = Event { events, token };
        // SAFETY: `event` lives until the call is over.
        checked(unsafe { epoll_ctl(self.epoll.as_raw_fd(), what, fd, &mut event) })?;
        Ok(())
    }

    /// Watch a connection for what it has to say, until it is closed.
    pub fn add(&self, connection: &File, token: u64) -> io::Result<()> {
        self.control(EPOLL_ADD, connection.as_raw_fd(), EPOLL_IN, token)
    }

    /// Watch a connection for room to write as well, or no longer.
    pub fn watch_room(&self, connection: &File, token: u64, wanted: bool) -> io::Result<()> {
        let events = if wanted { EPOLL_IN | EPOLL_OUT } else { EPOLL_IN };
        self.control(EPOLL_MODIFY, connection.as_raw_fd(), events, token)
    }

    /// Return what wakes this from another thread, by eight bytes written to it.
    pub fn waker(&self) -> io::Result<File> {
        self.wake.try_clone()
    }

    /// Make it wait no longer than until `at_ns` of the monotonic clock; costs nothing where it is armed for that.
    pub fn arm(&mut self, at_ns: i64) {
        if at_ns == self.armed {
            return;
        }
        self.armed = at_ns;
        let at = at_ns.max(1);
        let never = Moment { seconds: 0, nanoseconds: 0 };
        let new = [never, Moment { seconds: at / 1_000_000_000, nanoseconds: at % 1_000_000_000 }];
        // SAFETY: `new` is an itimerspec that lives until the call is over; the old one is not asked for.
        unsafe { timerfd_settime(self.timer.as_raw_fd(), ABSOLUTE, &new, std::ptr::null_mut()) };
    }

    /// Wait, or only look, and return how many tokens there are; 0 where a signal came.
    pub fn wait(&mut self, only_looks: bool) -> io::Result<usize> {
        let timeout = if only_looks { 0 } else { -1 };
        let events = self.events.as_mut_ptr();
        // SAFETY: the kernel writes at most as many events as there are places.
        match checked(unsafe { epoll_wait(self.epoll.as_raw_fd(), events, MOST_EVENTS as c_int, timeout) }) {
            Ok(count) => Ok(count as usize),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Return which descriptor the event is of.
    pub fn token(&self, event: usize) -> u64 {
        self.events[event].token
    }

    /// Take what woke it, so that it can be woken anew.
    pub fn calm(&self) {
        let _ = io::Read::read(&mut &self.wake, &mut [0; 8]);
    }
}
