// SPDX-License-Identifier: Apache-2.0

/* ZeroMQ: a pair of sockets over an abstract Unix address. */
#include <zmq.h>

#include "measure.h"

static void *context, *endpoint;

static void send_payload(const unsigned char *p, size_t n)
{
	if (zmq_send(endpoint, p, n, 0) != (int)n)
		die(zmq_strerror(zmq_errno()));
}

static void receive_payload(unsigned char *p, size_t n)
{
	if (zmq_recv(endpoint, p, n, 0) != (int)n)
		die(zmq_strerror(zmq_errno()));
}

static void connect_pair(int side, pid_t parent)
{
	char address[64];
	snprintf(address, sizeof address, "ipc://@disco-bench-zmq-%d", (int)parent);
	context = zmq_ctx_new();
	endpoint = context == NULL ? NULL : zmq_socket(context, ZMQ_PAIR);
	if (endpoint == NULL)
		die(zmq_strerror(zmq_errno()));
	if ((side == 0 ? zmq_bind(endpoint, address) : zmq_connect(endpoint, address)) != 0)
		die(zmq_strerror(zmq_errno()));
}

static void finish(void)
{
	zmq_close(endpoint);
	zmq_ctx_term(context);
}

int main(int argc, char **argv)
{
	return run(argc, argv, connect_pair, finish);
}
