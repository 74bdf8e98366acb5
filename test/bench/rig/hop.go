package rig

import (
	"errors"
	"io"
	"os/exec"
	"time"
)

// Hop is the floor of a fault's way: a process that gives back what it gets, so
// that the machine wakes two processes one after the other, as the backend wakes
// the core, and the core kubelet.
type Hop struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     io.ReadCloser
}

// StartHop starts the process.
func StartHop() (*Hop, error) {
	h := &Hop{process: exec.Command("cat")} //nolint:noctx // it ends with its input
	var err error
	if h.in, err = h.process.StdinPipe(); err != nil {
		return nil, err
	}
	if h.out, err = h.process.StdoutPipe(); err != nil {
		return nil, err
	}
	return h, h.process.Start()
}

// Take is how long a byte takes there and back.
func (h *Hop) Take() (time.Duration, error) {
	began, b := time.Now(), []byte{1}
	if _, err := h.in.Write(b); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(h.out, b)
	return time.Since(began), err
}

// Stop ends the process.
func (h *Hop) Stop() error { return errors.Join(h.in.Close(), h.process.Wait()) }
