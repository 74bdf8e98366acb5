package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/hostfs"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/supervisor"
)

// limit is the default of Options.Limit: a backend that works lists its devices in this time (backend.proto, Watch). slow is how
// long they take on an idle machine.
const limit, slow = 10 * time.Second, 3 * time.Second

// list runs programs until each has listed its devices, and returns the inventories by name.
// Those that fail are in failed.
func (o Options) list(ctx context.Context, dir string, specs []supervisor.Spec, failed map[string]string) (found map[string]*inventory.Backend, err error) {
	if len(specs) == 0 {
		return map[string]*inventory.Backend{}, nil
	}
	s := &sink{store: inventory.NewStore(nil), host: inventory.Host{Host: hostfs.Host{Devfs: o.Paths.GetDevfs(), Sysfs: o.Paths.GetSysfs(), Procfs: o.Paths.GetProcfs()}}, policies: map[string]inventory.Policy{}, changed: make(chan struct{}, 1)}
	programs, err := supervisor.New(supervisor.Options{
		BackendDir: o.BackendDir, Plug: plug.Options{RunDir: filepath.Clean(dir), Paths: o.Paths}, Sink: s, Log: o.Log, Timing: o.Timing,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, programs.Close(context.WithoutCancel(ctx))) }()
	programs.Apply(specs)
	all := cmp.Or(o.Limit, limit)
	ended, notice := time.NewTimer(all), time.NewTimer(min(slow, all/2))
	defer ended.Stop()
	defer notice.Stop()
	for late, isSlow := false, false; ; {
		var waiting []string
		for _, status := range programs.Status() {
			switch {
			case status.Applied:
			case status.Failed || status.LastError != "":
				failed[status.Name] = status.LastError
			case late:
				failed[status.Name] = fmt.Sprintf("%s has listed no devices within %s, and was ended: it hangs, or the machine is busy", filepath.Join(o.BackendDir, config.CommandPrefix+status.Name), all)
			default:
				waiting = append(waiting, config.CommandPrefix+status.Name)
			}
		}
		if len(waiting) == 0 {
			break
		}
		if isSlow && o.Waiting != nil {
			o.Waiting(waiting, all)
		}
		isSlow = false
		select {
		case <-s.changed:
		case <-notice.C:
			isSlow = true
		case <-ended.C:
			late = true
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	found = map[string]*inventory.Backend{}
	for _, b := range s.store.Snapshot().Backends {
		if failed[b.Name] == "" {
			found[b.Name] = b
		}
	}
	return found, nil
}

// sink checks what backends report as the agent does, and accepts what their manifests have.
type sink struct {
	store   *inventory.Store
	host    inventory.Host
	changed chan struct{}

	mu       sync.Mutex
	policies map[string]inventory.Policy
}

// Started implements supervisor.Sink.
func (s *sink) Started(backend string, d inventory.Description) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policies[backend] = inventory.Policy{AcceptDeclared: true, Host: s.host}
	s.store.SetPolicies(s.policies)
	s.store.Describe(backend, d)
}

// Described implements supervisor.Sink.
func (s *sink) Described(backend string, d inventory.Description) { s.Started(backend, d) }

// Report implements supervisor.Sink.
func (s *sink) Report(backend string, wire *inventory.Report) error {
	return s.store.Report(backend, wire)
}

// Lost implements supervisor.Sink.
func (s *sink) Lost(string, error) {}

// Changed implements supervisor.Sink.
func (s *sink) Changed(string) {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
