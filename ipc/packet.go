// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

// network is Unix sockets that keep packets apart, so that a packet and its files arrive together or not at all.
const network = "unixpacket"

// sendPacket sends one packet and the files that belong to it.
func sendPacket(conn *net.UnixConn, packet []byte, files ...*os.File) error {
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = syscall.UnixRights(fds...)
	}
	if _, _, err := conn.WriteMsgUnix(packet, rights, nil); err != nil {
		return fmt.Errorf("ipc: sending %d bytes and %d files: %w", len(packet), len(files), err)
	}
	return nil
}

// receivePacket receives one packet and up to filesMax files. The caller closes the
// files. What is larger, or brings more files, is refused, and leaves none open.
func receivePacket(conn *net.UnixConn) (packet []byte, files []*os.File, err error) {
	packet = make([]byte, packetBytes)
	rights := make([]byte, syscall.CmsgSpace(4*filesMax))
	n, rightsBytes, flags, _, err := conn.ReadMsgUnix(packet, rights)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, nil, fmt.Errorf("ipc: receiving a packet: %w", err)
	}
	files, err = filesOf(rights[:rightsBytes])
	if err == nil && (flags&(syscall.MSG_TRUNC|syscall.MSG_CTRUNC) != 0 || len(files) > filesMax) {
		err = fmt.Errorf("%w: a packet longer than %d bytes, or with more than %d files", ErrProtocol, packetBytes,
			filesMax)
	}
	if err != nil {
		closeFiles(files)
		return nil, nil, err
	}
	return packet[:n], files, nil
}

// filesOf takes the files out of the control messages of a packet. Also with an error
// it returns those it found, because they are open.
func filesOf(rights []byte) (files []*os.File, err error) {
	messages, err := syscall.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, fmt.Errorf("%w: control messages: %w", ErrProtocol, err)
	}
	for i := range messages {
		fds, parseErr := syscall.ParseUnixRights(&messages[i])
		if parseErr != nil {
			err = fmt.Errorf("%w: control message %d: %w", ErrProtocol, i, parseErr)
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), fmt.Sprintf("file %d of a peer", len(files))))
		}
	}
	return files, err
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // they were mapped or refused; nothing was written
	}
}

// checkPeer asks the kernel who is at the other end, and refuses other users.
func checkPeer(conn *net.UnixConn) (pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("ipc: asking for the peer's user: %w", err)
	}
	var cred *syscall.Ucred
	var askErr error
	err = raw.Control(func(fd uintptr) {
		cred, askErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err := errors.Join(err, askErr); err != nil {
		return 0, fmt.Errorf("ipc: asking for the peer's user: %w", err)
	}
	if int(cred.Uid) != os.Geteuid() {
		return 0, fmt.Errorf("%w: the process at the other end (%d) is of user %d, want %d", ErrPrivate, cred.Pid,
			cred.Uid, os.Geteuid())
	}
	return int(cred.Pid), nil
}

// hangUp waits until the other end of the socket has closed. After the handshake nothing is sent any more: whatever
// arrives counts as an end too.
func hangUp(conn *net.UnixConn) {
	var b [1]byte
	_, _ = conn.Read(b[:])
}
