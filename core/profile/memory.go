package profile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/checkpoint"
)

// magic is the kind and version of the state file.
const magic = "accelmux-selection/1"

// memory is the payload of the state file. Fields are only ever added, so that an
// older version can read a newer one's.
type memory struct {
	// Node is whose labels these are.
	Node string `json:"node"`
	// Labels are those last seen; nil if none ever were.
	Labels map[string]string `json:"labels"`
	// Profile is the one that ran last; "" if none did.
	Profile string `json:"profile,omitempty"`
}

// recall reads the file of an earlier run, or of the agent that this one is to replace: its
// temporary files may be in use. A file of another node is ignored.
func (w *Watcher) recall() {
	payload, err := checkpoint.Read(w.opts.Path, magic)
	var m memory
	if err == nil {
		if jsonErr := json.Unmarshal(payload, &m); jsonErr != nil {
			err = fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, jsonErr)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, checkpoint.ErrCorrupt):
		aside, moveErr := checkpoint.Quarantine(w.opts.Path)
		moved := "moved to " + aside
		if moveErr != nil {
			moved = fmt.Sprintf("it could not be moved aside: %v", moveErr)
		}
		w.fileNote = fmt.Sprintf("profile: the record of the node's labels is damaged (%v); %s; the agent waits for the API server to learn the labels", err, moved)
		w.log.Warn("the record of the node's labels is damaged; "+moved, "error", err)
	case err != nil:
		w.fileNote = fmt.Sprintf("profile: the record of the node's labels cannot be read (%v); the agent waits for the API server to learn the labels", err)
		w.log.Error("reading the record of the node's labels failed", "error", err)
	case m.Node == w.opts.Node:
		w.seen, w.profile = m.Labels, m.Profile
	}
}

// save writes the file.
func (w *Watcher) save() error {
	w.mu.Lock()
	m := memory{Node: w.opts.Node, Labels: w.seen, Profile: w.profile}
	w.mu.Unlock()
	payload, err := json.MarshalIndent(m, "", " ")
	if err == nil {
		err = w.opts.Disk.Write(w.opts.Path, magic, payload)
	}
	note := ""
	if err != nil {
		note = fmt.Sprintf("profile: the record of the node's labels cannot be written (%v); until it can, a restart needs the API server", err)
		w.log.Error("writing the record of the node's labels failed, trying again", "error", err)
	}
	w.mu.Lock()
	w.fileNote = note
	w.mu.Unlock()
	return err
}

// keep writes the state file whenever there is something new in it.
func (w *Watcher) keep(ctx context.Context) {
	failures := 0
	for {
		select {
		case <-ctx.Done():
			select {
			case <-w.dirty:
				_ = w.save() // the last chance; it has logged
			default:
			}
			return
		case <-w.dirty:
		}
		if err := w.save(); err != nil {
			failures++
			signal(w.dirty)
			backoff.Sleep(ctx, backoff.After(failures, w.opts.Timing.Backoff, w.opts.Timing.BackoffLimit))
			continue
		}
		failures = 0
	}
}
