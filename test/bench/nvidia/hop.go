package main

import (
	"errors"
	"io"
	"os/exec"
	"time"
)

// hop is the floor of a fault's way: a process that gives back what it gets, so
// that the machine wakes two processes one after the other, as the backend wakes
// the core, and the core kubelet.
type hop struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     io.ReadCloser
}

func startHop() (*hop, error) {
	h := &hop{process: exec.Command("cat")} //nolint:noctx // it ends with its input
	var err error
	if h.in, err = h.process.StdinPipe(); err != nil {
		return nil, err
	}
	if h.out, err = h.process.StdoutPipe(); err != nil {
		return nil, err
	}
	return h, h.process.Start()
}

// take is how long a byte takes there and back.
func (h *hop) take() (time.Duration, error) {
	began, b := time.Now(), []byte{1}
	if _, err := h.in.Write(b); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(h.out, b)
	return time.Since(began), err
}

func (h *hop) stop() error { return errors.Join(h.in.Close(), h.process.Wait()) }
