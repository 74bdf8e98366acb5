package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Patience bounds every wait.
const Patience = 30 * time.Second

// First starts a backend's process, waits until it has listed so many devices, and says
// how long that took. The directory has sys, dev and proc for it.
func First(bin, dir string, spec supervisor.Spec, devices int) (took time.Duration, err error) {
	run, err := os.MkdirTemp(dir, "r")
	if err != nil {
		return 0, err
	}
	sink := &sink{devices: devices, listed: make(chan time.Time, 1), lost: make(chan error, 1)}
	s, err := supervisor.New(supervisor.Options{
		BackendDir: bin, RunDir: run, Sink: sink,
		Paths: &backendv1.HostPaths{Sysfs: filepath.Join(dir, "sys"), Devfs: filepath.Join(dir, "dev"), Procfs: filepath.Join(dir, "proc")},
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close(context.Background()), os.RemoveAll(run)) }()
	began := time.Now()
	s.Apply([]supervisor.Spec{spec})
	select {
	case at := <-sink.listed:
		return at.Sub(began), nil
	case err := <-sink.lost:
		return 0, err
	case <-time.After(Patience):
		return 0, fmt.Errorf("no devices within %v: %+v", Patience, s.Status())
	}
}

// sink waits for all devices.
type sink struct {
	devices int
	listed  chan time.Time
	lost    chan error
}

func (*sink) Started(string, inventory.Description) {}

func (*sink) Described(string, inventory.Description) {}
func (*sink) Changed(string)                          {}

func (s *sink) Report(_ string, r *inventory.Report) error {
	if len(r.Devices) == s.devices {
		select {
		case s.listed <- time.Now():
		default:
		}
	}
	return nil
}

func (s *sink) Lost(_ string, reason error) {
	select {
	case s.lost <- reason:
	default:
	}
}
