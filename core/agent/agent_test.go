package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/core/condition"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/takeover"
	"github.com/accelmux/accelmux/test/patience"
)

// Verifies that a lock which goes a moment after its holder is waited for, and one that
// stays is not, for longer than a moment.
func TestPatiently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), runLockName)
		held, err := takeover.LockFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lock := func() (*takeover.FileLock, error) { return takeover.LockFile(path) }
		began := time.Now()
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		if _, err := patiently(logger, lock); !errors.Is(err, takeover.ErrHeld) {
			t.Errorf("the error is %v, want that of a lock that is held", err)
		}
		if took := time.Since(began); took < lockPatience || took > 2*lockPatience {
			t.Errorf("it took %v, want %v", took, lockPatience)
		}
		if text := log.String(); strings.Count(text, "waiting for another agent") != 1 || !strings.Contains(text, fmt.Sprintf("pid %d", os.Getpid())) {
			t.Errorf("the log does not say once who is waited for: %s", text)
		}
		time.AfterFunc(lockPatience/2, func() {
			if err := held.Release(); err != nil {
				t.Error(err)
			}
		})
		again, err := patiently(logger, lock)
		if err != nil {
			t.Fatalf("a lock that is free after a moment: %v", err)
		}
		if err := again.Release(); err != nil {
			t.Error(err)
		}
	})
}

// Verifies what an agent on standby reports of itself, beside its backends: that it has been
// there for long, and that it is not the next.
func TestStandbyFacts(t *testing.T) {
	dir := t.TempDir()
	active, next, third := takeover.New(dir), takeover.New(dir), takeover.New(dir)
	if err := active.Lock(); err != nil {
		t.Fatal(err)
	}
	for c, waits := range map[*takeover.Claim]int{next: 0, third: 1} {
		if err := next.Lock(); !errors.Is(err, takeover.ErrHeld) {
			t.Fatal(err)
		}
		for started, problems := range map[time.Time]int{time.Now(): 0, time.Now().Add(-longStandby - time.Second): 1} {
			a := newAgent(Options{}.withDefaults())
			a.claim, a.startedAt = c, started
			f := a.standbyFacts(status.Facts{})
			if len(f.Agent.Waits) != waits || len(f.Problems) != problems || len(f.Agent.Others) != 1 || f.Agent.Others[0].PID != os.Getpid() {
				t.Errorf("started at %v: %+v, %v; want %d problems and to wait for %d", started, f.Agent, f.Problems, problems, waits)
			}
		}
	}
	for _, c := range []*takeover.Claim{active, next, third} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Verifies that an agent on standby can be scraped and asked for its status while it takes over: the race detector sees
// a part that is read before it is open.
func TestScrapedWhileTakingOver(t *testing.T) {
	dir := t.TempDir()
	options := Options{
		ConfigPath: filepath.Join(dir, "config.yaml"), NodeName: "node", TakeOver: true,
		Directories: Directories{KubeletDir: dir, CDIDir: filepath.Join(dir, "cdi"), StateDir: filepath.Join(dir, "state"), RunDir: filepath.Join(dir, "run"), BackendDir: dir},
	}
	if err := errors.Join(
		os.WriteFile(options.ConfigPath, []byte("apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles: [{name: default, backends: [{name: mock}]}]\n"), 0o600),
		os.Mkdir(options.StateDir, 0o700),
	); err != nil {
		t.Fatal(err)
	}
	older := takeover.New(options.StateDir)
	if err := older.Lock(); err != nil {
		t.Fatal(err)
	}
	a, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	for _, read := range []func(){func() { a.telemetry.Read(ctx) }, func() { a.Report() }, a.alive} {
		running.Go(func() {
			for a.role() == status.RoleStandby && ctx.Err() == nil {
				read()
			}
		})
	}
	if err := older.Close(); err != nil {
		t.Fatal(err)
	}
	patience.Until(t, "the agent takes over", func() bool { return a.role() == status.RoleActive })
}

// Verifies that other users can neither write to nor list the agent's directories, nor open the program of the net
// hook, also where an earlier version let them.
func TestOthersAreKeptOut(t *testing.T) {
	log, dir := slog.New(slog.DiscardHandler), t.TempDir()
	mode := func(path string) fs.FileMode {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode()
	}
	for before, want := range map[fs.FileMode]fs.FileMode{
		0: fs.ModeDir | 0o711, 0o777: fs.ModeDir | 0o755, 0o711: fs.ModeDir | 0o711, 0o777 | fs.ModeSticky: fs.ModeDir | fs.ModeSticky | 0o777,
	} {
		path := filepath.Join(dir, before.String())
		if before != 0 {
			if err := errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, before)); err != nil {
				t.Fatal(err)
			}
		}
		if err := makeDir(path, log); err != nil || mode(path) != want {
			t.Errorf("a directory with mode %v: %v, mode %v, want %v", before, err, mode(path), want)
		}
	}
	a := &Agent{log: log, opts: Options{Directories: Directories{BackendDir: dir, StateDir: t.TempDir()}, HostPaths: HostPaths{netHook: "/x"}}}
	at := filepath.Join(a.opts.StateDir, netHook)
	for _, path := range []string{filepath.Join(dir, netHook), at} {
		if err := os.WriteFile(path, []byte("#!/bin/sh"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a.installNetHook([]*inventory.Device{{Edits: inventory.Edits{NetDevices: []inventory.NetDevice{{}}}}})
	if got := mode(at); got != 0o700 {
		t.Errorf("the net hook has mode %v", got)
	}
}

// Verifies that an agent that has no configuration to start with says why in the Node's condition, unless another agent
// serves the node.
func TestNoConfiguration(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "node.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := clustertest.New(t, "node-1", map[string]string{})
	options := Options{ConfigPath: path, NodeName: "node-1", Cluster: server.Client(t), NodeCondition: true, Directories: Directories{StateDir: dir}}
	serving := takeover.New(dir)
	if err := serving.Lock(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := Open(options); err == nil || !strings.Contains(err.Error(), "profiles: must be a list") {
			t.Fatalf("opened: %v", err)
		}
		if got := server.Condition(condition.Type); got.Type != "" && serving != nil {
			t.Errorf("beside an agent that serves: %+v", got)
		}
		if serving == nil {
			continue
		}
		if err := serving.Close(); err != nil {
			t.Fatal(err)
		}
		serving = nil
	}
	want := "the agent does not start: " + path + ":3:1: profiles: must be a list"
	if got := server.Condition(condition.Type); got.Status != corev1.ConditionFalse || got.Reason != condition.NotReady || !strings.HasPrefix(got.Message, want) {
		t.Errorf("the condition is %+v, want %s", got, want)
	}
	if n := server.Requests("patch status"); n != 1 {
		t.Errorf("written %d times, want 1", n)
	}
}
