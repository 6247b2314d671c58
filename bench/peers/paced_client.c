/* The least that a client of PostgreSQL does which sends at due moments: one epoll, one timer, one message and one answer
 * a statement. It keeps nothing, checks nothing, and is what a wake-up costs on this machine, twice a statement.
 *
 *   cc -O2 -o paced_client paced_client.c
 *   ./paced_client SOCKET USER SESSIONS STATEMENTS RATE
 *
 * SOCKET is the path of the server's Unix socket, whose connections it trusts; the table is that of replay_engines.py.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ACCOUNTS = 100000, MOST_EVENTS = 64, TIMER = 1 << 30 };
static const char SELECT[] = "SELECT abalance FROM pgbench_accounts WHERE aid = $1";
static char buffer[65536];

static int64_t now_ns(void) {
    struct timespec moment;
    clock_gettime(CLOCK_MONOTONIC, &moment);
    return moment.tv_sec * 1000000000LL + moment.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Put a message of a kind around a body; return its size. */
static size_t message(char *at, char kind, const char *body, size_t size) {
    uint32_t length = htonl((uint32_t)size + 4);
    at[0] = kind;
    memcpy(at + 1, &length, 4);
    memcpy(at + 5, body, size);
    return size + 5;
}

/* Wait until the server says that it is ready. */
static void until_ready(int connection) {
    for (;;) {
        ssize_t got = recv(connection, buffer, sizeof buffer, 0);
        if (got <= 0) fail("recv");
        if (got >= 6 && !memcmp(buffer + got - 6, "Z\0\0\0\5", 5)) return;
    }
}

/* Return how many answers end in what was received; one that was late may come with the next. */
static int ready(ssize_t got) {
    int found = 0;
    uint32_t length;
    for (ssize_t at = 0; at + 5 <= got; at += 1 + ntohl(length)) {
        if (buffer[at] == 'E') exit(3);
        memcpy(&length, buffer + at + 1, 4);
        found += buffer[at] == 'Z';
    }
    return found;
}

static int opened(const char *path, const char *user) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (connection < 0 || connect(connection, (struct sockaddr *)&address, sizeof address)) fail("connect");
    char words[256] = {0, 3, 0, 0};
    int size = 4 + sprintf(words + 4, "user%c%s%cdatabase%cpostgres%c", 0, user, 0, 0, 0) + 1;
    uint32_t length = htonl((uint32_t)size + 4);
    send(connection, &length, 4, 0);
    send(connection, words, size, 0);
    until_ready(connection);
    char parse[256] = "P0", all[512];
    memcpy(parse + 3, SELECT, sizeof SELECT);
    size_t filled = message(all, 'P', parse, 3 + sizeof SELECT + 2);
    filled += message(all + filled, 'S', "", 0);
    send(connection, all, filled, 0);
    until_ready(connection);
    return connection;
}

/* Ask for one account; the statement is prepared. */
static void ask(int connection) {
    char key[16], bind[64] = {0, 'P', '0', 0, 0, 0, 0, 1}, all[160];
    int size = sprintf(key, "%d", 1 + rand() % ACCOUNTS);
    uint32_t length = htonl((uint32_t)size);
    memcpy(bind + 8, &length, 4);
    memcpy(bind + 12, key, size);
    size_t filled = message(all, 'B', bind, 12 + size + 2);
    filled += message(all + filled, 'E', "\0\0\0\0\0", 5);
    filled += message(all + filled, 'S', "", 0);
    if (send(connection, all, filled, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)filled) fail("send");
}

int main(int count, char **words) {
    if (count != 6) return 2;
    int sessions = atoi(words[3]), statements = atoi(words[4]);
    double rate = atof(words[5]);
    int *connections = calloc(sessions, sizeof(int));
    int poll = epoll_create1(EPOLL_CLOEXEC), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event events[MOST_EVENTS], one = {EPOLLIN | EPOLLET, {.u64 = TIMER}};
    epoll_ctl(poll, EPOLL_CTL_ADD, timer, &one);
    for (int number = 0; number < sessions; number++) {
        connections[number] = opened(words[1], words[2]);
        one = (struct epoll_event){EPOLLIN, {.u64 = number}};
        epoll_ctl(poll, EPOLL_CTL_ADD, connections[number], &one);
    }
    int64_t begin = now_ns() + 50000000, armed = 0;
    for (int sent = 0, answered = 0; answered < statements;) {
        int64_t due = begin + (int64_t)(sent / rate * 1e9);
        for (; sent < statements && due <= now_ns(); due = begin + (int64_t)(sent / rate * 1e9)) {
            ask(connections[sent++ % sessions]);
        }
        if (sent < statements && due != armed) {
            struct itimerspec moment = {{0, 0}, {due / 1000000000, due % 1000000000}};
            timerfd_settime(timer, TFD_TIMER_ABSTIME, &moment, NULL);
            armed = due;
        }
        int found = epoll_wait(poll, events, MOST_EVENTS, -1);
        for (int event = 0; event < found; event++) {
            if (events[event].data.u64 == TIMER) continue;
            ssize_t got = recv(connections[events[event].data.u64], buffer, sizeof buffer, MSG_DONTWAIT);
            if (got <= 0) fail("recv");
            answered += ready(got);
        }
    }
    return 0;
}
