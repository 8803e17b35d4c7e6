// SPDX-License-Identifier: Apache-2.0

package workerproc

import (
	"os"

	"golang.org/x/sys/unix"
)

// Unread tells whether the reading end of a pipe that this process writes to has been closed. What isn't a pipe,
// socket or terminal is always read.
func Unread(file *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(file.Fd())}} // asks for nothing: errors and hang-ups are always told
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}
