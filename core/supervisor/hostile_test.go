package supervisor_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/test/patience"
	"github.com/accelmux/accelmux/test/programs"
)

// Verifies that an unusable program is refused with a clear error, and that no restart is
// needed after it was fixed.
func TestPrograms(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"missing":        {"", "does not exist: install it"},
		"not a program":  {"hello\n", "is not a program for this machine"},
		"no interpreter": {"#!/nonexistent/python\n", "its interpreter or dynamic loader is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, fast())
			if test.text != "" {
				script(t, r, test.text)
			}
			s := spec("normal")
			s.Command = "script"
			r.Apply([]supervisor.Spec{s})
			r.untilError(test.want)
			if got := r.untilState(supervisor.Unavailable); !got.Failed || got.RetryAt.IsZero() {
				t.Errorf("status = %+v", got)
			}
			path := filepath.Join(r.backendDir, s.Command)
			must(t, os.RemoveAll(path))
			must(t, os.Symlink(program, path))
			programs.Manifest(t, path, usual)
			r.untilState(supervisor.Running)
		})
	}
}

// Verifies that a backend that fails to start is ended, with the reason in its status.
func TestStartFailures(t *testing.T) {
	shorten := func(field func(*supervisor.Timing) *time.Duration) func(*supervisor.Timing) {
		return func(timing *supervisor.Timing) { *field(timing) = 100 * time.Millisecond } // no process of the test makes it
	}
	tests := map[string]struct {
		timing func(*supervisor.Timing)
		want   string
		state  supervisor.State
	}{
		"exit":                {want: "exited with status 3 after"},
		"panic":               {want: "it last logged: panic: what a driver's library does on a bad day"},
		"abort":               {want: "it last logged: SIGABRT: abort"},
		"garbage":             {want: `it printed "hello from a vendor library" instead of the handshake`},
		"garbage-without-end": {want: `it printed "xxxxxxxx`},
		"protocol":            {want: "it implements version 7 of the backend contract, but this core needs version 1"},
		"tcp":                 {want: "it listens on tcp 127.0.0.1:1, but must listen on a unix socket in PLUGIN_UNIX_SOCKET_DIR"},
		"silent": {
			// Longer than the program waits for a processor on a slow machine, which would be no failure.
			timing: func(timing *supervisor.Timing) { timing.Start = 3 * time.Second },
			want:   "it did not complete the handshake within 3s",
		},
		"configure-hang": {
			timing: shorten(func(t *supervisor.Timing) *time.Duration { return &t.Configure }),
			want:   "it did not answer Configure within 100ms",
		},
		"no-inventory": {
			timing: shorten(func(t *supervisor.Timing) *time.Duration { return &t.FirstInventory }),
			want:   "it sent no inventory within 100ms",
		},
		"no-health":   {want: `its server must serve grpc.health.v1.Health with the service "plugin": no such service`},
		"no-revision": {want: "its inventory has the settings revision 0"},
		"refuse":      {want: "the settings are refused: devices[2].memory: must be a power of two", state: supervisor.Misconfigured},
	}
	for role, test := range tests {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			timing := fast()
			timing.Failures = 2
			if test.timing != nil {
				test.timing(&timing)
			}
			r := newRig(t, timing)
			r.Apply([]supervisor.Spec{spec(role)})
			r.untilError(test.want)
			if test.state == "" {
				test.state = supervisor.Quarantined
			}
			s := r.untilState(test.state)
			if s.PID != 0 || !s.Failed || s.RetryAt.Before(time.Now().Add(time.Minute)) || test.state == supervisor.Misconfigured && s.Restarts != 0 {
				t.Errorf("status = %+v", s)
			}
			if calls := r.history(); len(calls) != r.count("lost b") {
				t.Errorf("the sink was called for a process that never reported: %q", calls)
			}
			if test.timing == nil {
				r.run(spec("normal")) // another spec ends the wait
			}
		})
	}
}

// Verifies that a process that hangs or violates the contract is replaced.
func TestHangs(t *testing.T) {
	const often, seldom = time.Second, 20 * time.Second
	tests := map[string]struct {
		command   string
		heartbeat time.Duration
		health    time.Duration
		want      string
	}{
		"heartbeat stops": {"silence", often, patience.Long, "no heartbeat for 3s although its server answers: the loop that watches the hardware hangs"},
		"stopped process": {"stop", often, 200 * time.Millisecond, "no heartbeat for 3s, and its server does not answer"},
		"oversize":        {"oversize", seldom, patience.Long, "received message larger than max"},
		"swelling":        {"swell", seldom, patience.Long, "it takes more than 20 MiB of the core's memory: report fewer or smaller devices"},
		"litter":          {"litter", often, patience.Long, "it has more than 32 files or 128 kB in the directory of its socket"},
		"stream ends":     {"end", seldom, patience.Long, "it ended the stream"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timing := fast()
			timing.Health, timing.Terminate, timing.Reap = test.health, 100*time.Millisecond, 200*time.Millisecond
			r := newRig(t, timing)
			s := spec("normal")
			s.Heartbeat = test.heartbeat
			r.run(s)
			ended := watchExit(t, r.status().PID)
			// A stopped process does not answer.
			call := make(chan error, 1)
			go func() { call <- r.command(t.Context(), test.command) }()
			r.untilError(test.want)
			<-call
			ended()
			r.until(t, "it is back", func() bool { return r.count("started b") >= 2 })
		})
	}
}

// Verifies that a child that ignores SIGTERM and keeps the pipes open delays nothing: it is
// killed if it is in the process group, and ignored otherwise.
func TestGrandchildren(t *testing.T) {
	for _, role := range []string{"grandchild", "grandchild-escaped"} {
		t.Run(role, func(t *testing.T) {
			timing := fast()
			timing.Reap = 100 * time.Millisecond
			r := newRig(t, timing)
			r.run(spec(role))
			leader := watchExit(t, r.pid(t, "b", "pid"))
			child := watchExit(t, r.pid(t, "b", "child"))
			// The backend dies without taking the child with it.
			must(t, syscall.Kill(r.pid(t, "b", "pid"), syscall.SIGKILL))
			r.untilError("was killed by signal 9")
			leader()
			if role == "grandchild" {
				child()
			}
			r.until(t, "it is back", func() bool { return r.count("report b 1") == 2 })
			if role == "grandchild" {
				last := watchExit(t, r.pid(t, "b", "child"))
				must(t, r.Close(t.Context()))
				last()
			} else {
				watchExit(t, r.pid(t, "b", "child")) // ends it with the test
			}
		})
	}
}

// Verifies that log lines are limited in rate and length.
func TestLogs(t *testing.T) {
	timing := fast()
	timing.LogLines, timing.LogBurst = 1, 100
	r := newRig(t, timing)
	r.run(spec("hostile-log"))
	for _, command := range []string{"flood", "print"} {
		must(t, r.command(t.Context(), command))
	}
	must(t, r.Close(t.Context()))
	log := r.log.String()
	if n := strings.Count(log, "the same line again"); n == 0 || n > 200 {
		t.Errorf("%d lines of the flood", n)
	}
	for _, want := range []string{
		`level=WARN msg="a good line" backend=b key=value`, `msg="dropped lines of the backend's log" backend=b lines=`, `{\"@message\": 7`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not contain %s", want)
		}
	}
	for line := range strings.Lines(log) {
		if len(line) > 5<<10 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
}

// Verifies that Close ends all processes in bounded time, whatever the backends do.
func TestCloseIsBounded(t *testing.T) {
	timing := fast()
	timing.Terminate, timing.Reap = 300*time.Millisecond, 300*time.Millisecond
	r := newRig(t, timing)
	var specs []supervisor.Spec
	for _, role := range []string{"normal", "grandchild", "silent", "exit", "configure-hang", "no-inventory", "garbage"} {
		s := spec(role)
		s.Name = role
		specs = append(specs, s)
	}
	r.Apply(specs)
	r.until(t, "one runs", func() bool { return r.count("report normal 1") == 1 && r.count("report grandchild 1") == 1 })
	stopped := r.pid(t, "normal", "pid")
	ended := watchExit(t, stopped)
	child := watchExit(t, r.pid(t, "grandchild", "child"))
	must(t, syscall.Kill(stopped, syscall.SIGSTOP))
	begin := time.Now()
	must(t, r.Close(t.Context()))
	if took := time.Since(begin); took > patience.Long/2 {
		t.Errorf("close took %s", took)
	}
	ended()
	child()
}

// Verifies that a run directory whose path is too long for sockets is refused, with the limit.
func TestDeepRunDir(t *testing.T) {
	deep := filepath.Join(tempDir(t), strings.Repeat("deep/", 20))
	_, err := supervisor.New(supervisor.Options{BackendDir: tempDir(t), Plug: plug.Options{RunDir: deep}, Sink: newRecorder()})
	if err == nil || !strings.Contains(err.Error(), "choose one of at most 52 bytes") {
		t.Errorf("error %v", err)
	}
}
