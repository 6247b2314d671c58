//! Open sessions: connect, prove the password. Blocking, for a thread of its own, and over at its deadline.

use crate::digest::base64;
use crate::plan::Plan;
use crate::scram::{md5_answer, Salted, Scram, MECHANISM};
use crate::sys;
use crate::wire;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Bytes of a message before the session is open; none is near that.
const LONGEST: i32 = 1 << 20;
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);
const NOT_POSTGRESQL: &str = "what answers is not PostgreSQL";
const CLOSED: &str = "the server closed the connection";

/// A session that is ready for its first statement.
pub struct Opened {
    pub connection: File,
    pub pid: i32,
    pub key: Vec<u8>,
    /// What makes the session its role's again after a reset; empty where the role itself logged in.
    pub restore_role: Vec<u8>,
    /// What came after the server was ready.
    pub backlog: Vec<u8>,
}

/// Return an error in the words in which the Python engine tells it.
pub fn said(error: &io::Error) -> String {
    match error.raw_os_error() {
        _ if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => "timed out".into(),
        Some(number) => {
            let text = error.to_string();
            format!("[Errno {number}] {}", text.split(" (os error").next().unwrap_or(""))
        }
        None => error.to_string(),
    }
}

/// Open a session for a role of the trace; the error is for the outcome, and never holds a password.
pub fn open_session(
    plan: &Plan,
    salted: &Salted,
    user: &str,
    database: &str,
    application: &str,
) -> Result<Opened, String> {
    let role = plan.users.get(user).unwrap_or(user);
    let password = plan.passwords.get(role);
    let stand_in = if password.is_none() { plan.stand_in.as_deref() } else { None };
    let login = stand_in.unwrap_or(role);
    let mut settings = vec![
        ("user", login),
        ("database", plan.databases.get(database).unwrap_or(database)),
        ("application_name", application),
        ("client_encoding", "UTF8"),
    ];
    for (name, value) in &plan.settings.0 {
        match settings.iter_mut().find(|(known, _)| known == name) {
            Some(setting) => setting.1 = value,
            None => settings.push((name, value)),
        }
    }
    let mut channel = Channel::connect(plan, Duration::try_from_secs_f64(plan.connect_timeout_s).unwrap_or_default())?;
    channel.send(&wire::startup(&settings)?)?;
    channel.prove(login, if stand_in.is_none() { password } else { plan.passwords.get(login) }, salted)?;
    let mut restore_role = Vec::new();
    if stand_in.is_some_and(|name| name != role) {
        restore_role = wire::query(&format!("SET SESSION AUTHORIZATION \"{}\"", role.replace('"', "\"\"")))?;
        channel.send(&restore_role)?;
        channel.wait_ready()?;
    }
    channel.opened(restore_role)
}

/// Ask the server to cancel what a session is at; what goes wrong shows in that session's answer.
pub fn cancel(plan: &Plan, pid: i32, key: &[u8]) {
    if let Ok(mut channel) = Channel::connect(plan, CANCEL_TIMEOUT) {
        if channel.send(&wire::cancel_request(pid, key)).is_ok() {
            let _ = channel.receive(); // the server closes when it has passed it on
        }
    }
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

struct Channel {
    stream: Stream,
    deadline: Instant,
    backlog: Vec<u8>,
    pid: i32,
    key: Vec<u8>,
}

impl Channel {
    fn connect(plan: &Plan, timeout: Duration) -> Result<Channel, String> {
        let deadline = Instant::now() + timeout;
        let stream = if plan.host.starts_with('/') {
            let path = format!("{}/.s.PGSQL.{}", plan.host, plan.port);
            sys::connect_unix(&path, deadline).map(Stream::Unix)
        } else {
            connect_tcp(&plan.host, plan.port, timeout).map(Stream::Tcp)
        };
        let stream = stream.map_err(|error| said(&error))?;
        Ok(Channel { stream, deadline, backlog: Vec::new(), pid: 0, key: Vec::new() })
    }

    fn opened(self, restore_role: Vec<u8>) -> Result<Opened, String> {
        let told = |error| said(&error);
        let connection: OwnedFd = match self.stream {
            Stream::Unix(stream) => {
                stream.set_nonblocking(true).map_err(told)?;
                stream.into()
            }
            Stream::Tcp(stream) => {
                stream.set_nonblocking(true).map_err(told)?;
                stream.into()
            }
        };
        let Channel { pid, key, backlog, .. } = self;
        Ok(Opened { connection: connection.into(), pid, key, restore_role, backlog })
    }

    /// Give the next call the time that is left.
    fn limit(&self) -> Result<(), String> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let left = Some(left.max(Duration::from_millis(1)));
        match &self.stream {
            Stream::Unix(stream) => stream.set_read_timeout(left).and_then(|()| stream.set_write_timeout(left)),
            Stream::Tcp(stream) => stream.set_read_timeout(left).and_then(|()| stream.set_write_timeout(left)),
        }
        .map_err(|error| said(&error))
    }

    fn send(&mut self, data: &[u8]) -> Result<(), String> {
        self.limit()?;
        match &mut self.stream {
            Stream::Unix(stream) => stream.write_all(data),
            Stream::Tcp(stream) => stream.write_all(data),
        }
        .map_err(|error| said(&error))
    }

    fn receive(&mut self) -> Result<(), String> {
        let mut buffer = [0; 8192];
        loop {
            if Instant::now() >= self.deadline {
                return Err("timed out".into());
            }
            self.limit()?;
            let got = match &mut self.stream {
                Stream::Unix(stream) => stream.read(&mut buffer),
                Stream::Tcp(stream) => stream.read(&mut buffer),
            };
            match got {
                Ok(0) => return Err(CLOSED.into()),
                Ok(size) => {
                    self.backlog.extend_from_slice(&buffer[..size]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(said(&error)),
            }
        }
    }

    /// Return the next message: its letter and its body.
    fn next(&mut self) -> Result<(u8, Vec<u8>), String> {
        loop {
            if let Some(length) = self.backlog.get(1..5) {
                let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
                if !(4..=LONGEST).contains(&length) {
                    return Err(NOT_POSTGRESQL.into());
                }
                let size = length as usize + 1;
                if self.backlog.len() >= size {
                    let found = (self.backlog[0], self.backlog[5..size].to_vec());
                    self.backlog.drain(..size);
                    return Ok(found);
                }
            }
            self.receive()?;
        }
    }

    fn prove(&mut self, user: &str, password: Option<&str>, salted: &Salted) -> Result<(), String> {
        let mut exchange: Option<Scram> = None;
        loop {
            let (kind, body) = self.next()?;
            match kind {
                b'E' => return Err(wire::words_of_error(&body)),
                b'R' => {}
                _ => continue,
            }
            let method = number(&body).ok_or(NOT_POSTGRESQL)?;
            let data = &body[4..];
            if method == 0 {
                Scram::accepted(exchange.as_ref())?;
                return self.wait_ready();
            }
            if let (12, Some(scram)) = (method, &mut exchange) {
                scram.verify(data)?;
                continue;
            }
            let Some(password) = password else {
                return Err(format!("the server asks for the password of '{user}', and none is known"));
            };
            match (method, &mut exchange) {
                (3, _) => self.send_proof(&[password.as_bytes(), b"\0"])?,
                (5, _) => {
                    let answer = md5_answer(user, password, data.get(..4).unwrap_or(data));
                    self.send_proof(&[answer.as_bytes(), b"\0"])?;
                }
                (10, _) if data.split(|byte| *byte == 0).any(|name| name == MECHANISM.as_bytes()) => {
                    let mut random = [0; 18];
                    sys::random(&mut random).map_err(|error| said(&error))?;
                    let scram = Scram::new("", base64(&random));
                    let first = scram.first();
                    let size = (first.len() as i32).to_be_bytes();
                    self.send_proof(&[MECHANISM.as_bytes(), b"\0", &size, first.as_bytes()])?;
                    exchange = Some(scram);
                }
                (11, Some(scram)) => {
                    let last = scram.last(password, data, salted)?;
                    self.send_proof(&[last.as_bytes()])?;
                }
                _ => {
                    return Err(format!(
                        "the server asks for method {method} of authentication, which a replay cannot give"
                    ));
                }
            }
        }
    }

    fn send_proof(&mut self, parts: &[&[u8]]) -> Result<(), String> {
        self.send(&wire::message(b'p', &parts.concat()))
    }

    fn wait_ready(&mut self) -> Result<(), String> {
        loop {
            let (kind, body) = self.next()?;
            match kind {
                b'K' => {
                    self.pid = number(&body).ok_or(NOT_POSTGRESQL)?;
                    self.key = body.get(4..).unwrap_or(&[]).to_vec();
                }
                b'E' => return Err(wire::words_of_error(&body)),
                b'Z' => return Ok(()),
                _ => {}
            }
        }
    }
}

fn number(body: &[u8]) -> Option<i32> {
    Some(i32::from_be_bytes(body.get(..4)?.try_into().ok()?))
}

fn connect_tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
