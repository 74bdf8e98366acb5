/* Where the file is, and when it is read again: whenever a call finds that it
 * was replaced or changed. A thread watches its directory, so that calls that
 * wait see a new version at once. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "double.h"

enum {
	MAX_FILE = 4 << 20,
	BLIND_MS = 5, /* how often to look where the directory cannot be watched */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static char path[PATH_MAX], made[PATH_MAX + 8];
static struct stat seen, seen_made;
static struct file *newest;
static int watch = -1;
static bool watched, blind;

void source_lock(void)
{
	pthread_mutex_lock(&lock);
}

void source_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

u64 now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * 1000 + (u64)now.tv_nsec / 1000000;
}

/* Up to so many bytes of a file, and a newline. */
static size_t read_into(char *text, int fd, size_t size)
{
	size_t have = 0;
	while (have < size) {
		ssize_t n = read(fd, text + have, size - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	text[have] = '\n';
	return have + 1;
}

/* The file, and the lines of what was made. */
static struct file *read_file(int fd, size_t size)
{
	size_t more = (size_t)seen_made.st_size;
	char *text = malloc(size + more + 3);
	size_t have = text ? read_into(text, fd, size) : 0;
	int second = text && more ? open(made, O_RDONLY | O_CLOEXEC) : -1;
	if (second >= 0) {
		have += read_into(text + have, second, more);
		close(second);
	}
	return text ? file_parse(text, have) : NULL;
}

static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

bool source_make(const char *drop, const char *add)
{
	char next[PATH_MAX + 16], line[KEY * 2];
	snprintf(next, sizeof next, "%s.next", made);
	FILE *before = fopen(made, "re"), *after = fopen(next, "we");
	while (after && before && fgets(line, sizeof line, before))
		if (strncmp(line, drop, strlen(drop)))
			fputs(line, after);
	if (before)
		fclose(before);
	return after && fputs(add, after) >= 0 && !fclose(after) && !rename(next, made);
}

/* What cannot be read leaves the last version in force. */
static void refresh(void)
{
	struct stat now, now_made = {0};
	if (stat(made, &now_made) || now_made.st_size > MAX_FILE)
		now_made = (struct stat){0};
	if (stat(path, &now) || !S_ISREG(now.st_mode) || now.st_size > MAX_FILE)
		return;
	if (newest && same(&now, &seen) && same(&now_made, &seen_made))
		return;
	seen_made = now_made;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	struct file *file = fstat(fd, &now) || now.st_size > MAX_FILE ? NULL : read_file(fd, (size_t)now.st_size);
	close(fd);
	if (!file)
		return;
	seen = now;
	source_release(newest);
	file->references = 1;
	newest = file;
	pthread_cond_broadcast(&changed);
}

struct file *source_newest(void)
{
	refresh();
	if (newest)
		newest->references++;
	return newest;
}

void source_release(struct file *file)
{
	if (file && !--file->references)
		file_free(file);
}

void source_wait(u64 deadline)
{
	struct timespec until = {
		.tv_sec = (time_t)(deadline / 1000),
		.tv_nsec = (long)(deadline % 1000) * 1000000,
	};
	pthread_cond_timedwait(&changed, &lock, &until);
}

void source_wake(void)
{
	pthread_cond_broadcast(&changed);
}

static void *look(void *nothing)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	(void)nothing;
	for (;;) {
		struct pollfd ready = {.fd = watch, .events = POLLIN};
		source_lock();
		int timeout = blind ? BLIND_MS : -1;
		source_unlock();
		if (poll(&ready, 1, timeout) > 0 && read(watch, events, sizeof events) < 0 && errno != EAGAIN && errno != EINTR)
			return NULL;
		source_lock();
		refresh();
		source_unlock();
	}
}

/* One thread for the life of the process: the library is never unloaded. */
static void start_watching(void)
{
	pthread_condattr_t monotonic;
	pthread_t thread;
	sigset_t all, before;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	blind = watch < 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (!pthread_create(&thread, NULL, look, NULL))
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	watched = true;
}

static void watch_directory(void)
{
	char directory[PATH_MAX];
	memcpy(directory, path, sizeof directory);
	char *slash = strrchr(directory, '/');
	if (slash)
		*slash = 0;
	const char *name = !slash ? "." : slash == directory ? "/" : directory;
	if (watch < 0 || inotify_add_watch(watch, name, IN_MOVED_TO | IN_CLOSE_WRITE) < 0)
		blind = true;
}

bool source_open(void)
{
	const char *file = getenv("ACCELMUX_NVML_FILE");
	if (!watched)
		start_watching();
	if (!file || strlen(file) >= sizeof path)
		return false;
	if (strcmp(file, path)) {
		source_release(newest);
		newest = NULL;
		snprintf(path, sizeof path, "%s", file);
		const char *other = getenv("ACCELMUX_NVML_MADE");
		if (other && strlen(other) < PATH_MAX)
			snprintf(made, sizeof made, "%s", other);
		else
			snprintf(made, sizeof made, "%s.made", file);
		watch_directory();
	}
	refresh();
	return newest != NULL;
}
