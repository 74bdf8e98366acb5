package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/openfiles"
)

// request is the first message of a connection. It has one of both.
type request struct {
	Start  *Start  `json:"start,omitempty"`
	Search *Search `json:"search,omitempty"`
}

// Search asks which processes have devices open; see package openfiles.
type Search struct {
	Procfs  string             `json:"procfs"`
	Devices []openfiles.Device `json:"devices"`
}

// Start asks for a process.
type Start struct {
	// Program is the file name of the backend's program, as in the node configuration.
	Program string `json:"program"`
	// Env is the whole environment.
	Env []string `json:"env"`
	// Sandbox is what the process is started with; see package sandbox.
	Sandbox json.RawMessage `json:"sandbox,omitempty"`
}

// signalMessage has a signal sent to the process group.
type signalMessage struct {
	Signal unix.Signal `json:"signal"`
}

// answer is a message from a launcher: first one of the sandbox, with its report, when the program runs; perhaps more of the
// sandbox, as of files that appeared in the launcher's container; then the wait status. An error comes alone: the program
// does not run. For a search it is the processes, or an error.
type answer struct {
	Processes openfiles.Processes `json:"processes,omitempty"`
	Message   json.RawMessage     `json:"message,omitempty"`
	Status    *unix.WaitStatus    `json:"status,omitempty"`
	Error     string              `json:"error,omitempty"`
}

const (
	// network is the kind of socket, for package net.
	network = "unixpacket"
	// maxMessage bounds a message, in bytes. The environment is the largest part of it.
	maxMessage = 256 << 10
	// maxFiles bounds the descriptors of a message.
	maxFiles = 4
)

// send sends a message with descriptors.
func send(conn *net.UnixConn, message any, files ...*os.File) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(text) > maxMessage {
		return fmt.Errorf("the message has %d bytes; at most %d are possible", len(text), maxMessage)
	}
	var rights []byte
	if len(files) > 0 {
		descriptors := make([]int, len(files))
		for i, f := range files {
			descriptors[i] = int(f.Fd())
		}
		rights = unix.UnixRights(descriptors...)
	}
	_, _, err = conn.WriteMsgUnix(text, rights, nil)
	return err
}

// receive reads a message and its descriptors, which the caller closes also after an error. The error is io.EOF when
// the other side has ended.
func receive(conn *net.UnixConn, message any) (files []*os.File, err error) {
	text, rights := make([]byte, maxMessage+1), make([]byte, unix.CmsgSpace(maxFiles*4))
	n, nrights, flags, _, err := conn.ReadMsgUnix(text, rights)
	if err != nil {
		return nil, err
	}
	if nrights > 0 {
		files, err = filesOf(rights[:nrights])
	}
	switch {
	case err != nil:
		return files, err
	case n == 0:
		return files, io.EOF
	case n > maxMessage || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		return files, errors.New("the message is too long, or has too many descriptors")
	}
	return files, json.Unmarshal(text[:n], message)
}

func filesOf(rights []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		descriptors, err := unix.ParseUnixRights(&m)
		if err != nil {
			return files, err
		}
		for _, d := range descriptors {
			unix.CloseOnExec(d)
			files = append(files, os.NewFile(uintptr(d), "received"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// peer returns the user of the process at the other end (SO_PEERCRED, unix(7)): of a client the one that connected, of
// a server the one that listened.
func peer(conn *net.UnixConn) (uid uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var credentials *unix.Ucred
	if failed := raw.Control(func(fd uintptr) {
		credentials, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); failed != nil {
		return 0, failed
	}
	if err != nil {
		return 0, err
	}
	return credentials.Uid, nil
}
