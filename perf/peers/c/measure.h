// SPDX-License-Identifier: Apache-2.0

/* What the clients of this folder share: the clock, the payloads, and the two
 * measurements over a send and a receive function.
 *
 *   client latency BYTES COUNT   prints p50 p90 p99 p99.9 max of the round trips, ns
 *   client stream BYTES COUNT    prints the events and the ns they took
 *
 * Each client forks: the parent leads, the child follows. Every payload is written in
 * full by one and read in full by the other. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* Both return 0, or end the process after a message. */
static void send_payload(const unsigned char *p, size_t n);
static void receive_payload(unsigned char *p, size_t n);

static void die(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint64_t sum_bytes(const unsigned char *p, size_t n)
{
	uint64_t s = 0, w;
	for (; n >= 8; p += 8, n -= 8) {
		memcpy(&w, p, 8);
		s += w;
	}
	for (; n > 0; p++, n--)
		s += *p;
	return s;
}

/* A payload is its number and then bytes that don't change; rest is their sum. */
static uint64_t fill(unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(i * 131 + 7);
	uint64_t zero = 0;
	memcpy(p, &zero, 8);
	return sum_bytes(p, n);
}

static void check(const unsigned char *p, size_t n, uint64_t rest, uint64_t number)
{
	if (sum_bytes(p, n) != rest + number)
		die("a payload was damaged");
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static void lead_latency(unsigned char *p, size_t n, uint64_t rest, uint64_t count)
{
	int64_t *times = malloc(count * sizeof *times);
	if (times == NULL)
		die("no memory");
	uint64_t warm = count / 10;
	for (uint64_t i = 0; i < warm + count; i++) {
		int64_t start = now_ns();
		memcpy(p, &i, 8);
		send_payload(p, n);
		receive_payload(p, n);
		check(p, n, rest, i);
		if (i >= warm)
			times[i - warm] = now_ns() - start;
	}
	qsort(times, count, sizeof *times, by_value);
	printf("%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", times[count / 2], times[count * 90 / 100],
	       times[count * 99 / 100], times[count * 999 / 1000], times[count - 1]);
	free(times);
}

static void lead_stream(unsigned char *p, size_t n, uint64_t count)
{
	int64_t start = now_ns();
	for (uint64_t i = 0; i < count; i++) {
		memcpy(p, &i, 8);
		send_payload(p, n);
	}
	receive_payload(p, n);
	printf("%" PRIu64 " %" PRId64 "\n", count, now_ns() - start);
}

static void follow(unsigned char *p, size_t n, uint64_t rest, uint64_t count, int answer)
{
	if (answer)
		count += count / 10;
	for (uint64_t i = 0; i < count; i++) {
		receive_payload(p, n);
		check(p, n, rest, i);
		if (answer)
			send_payload(p, n);
	}
	if (!answer)
		send_payload(p, n);
}

/* run is main: connect opens the way between the two, side 0 for the parent. */
static int run(int argc, char **argv, void (*connect)(int side, pid_t parent), void (*finish)(void))
{
	if (argc != 4 || (strcmp(argv[1], "latency") != 0 && strcmp(argv[1], "stream") != 0))
		die("usage: client latency|stream BYTES COUNT");
	int latency = strcmp(argv[1], "latency") == 0;
	size_t n = strtoull(argv[2], NULL, 10);
	uint64_t count = strtoull(argv[3], NULL, 10);
	if (n < 8 || count < 1)
		die("want at least 8 bytes and a count of 1");
	unsigned char *p = malloc(n);
	if (p == NULL)
		die("no memory");
	uint64_t rest = fill(p, n);
	pid_t parent = getpid(), child = fork();
	if (child < 0)
		die("fork failed");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		connect(1, parent);
		follow(p, n, rest, count, latency);
		finish();
		_exit(0);
	}
	connect(0, parent);
	if (latency)
		lead_latency(p, n, rest, count);
	else
		lead_stream(p, n, count);
	fflush(stdout);
	finish();
	int status;
	waitpid(child, &status, 0);
	free(p);
	return status == 0 ? 0 : 1;
}
