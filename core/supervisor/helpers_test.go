package supervisor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/patience"
	"github.com/accelmux/accelmux/test/programs"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		playRole(role)
		return
	}
	goleak.VerifyTestMain(m)
}

// recorder is a sink that records all calls.
type recorder struct {
	mu      sync.Mutex
	calls   []string // "started b", "report b 1", "lost b: why"
	reports map[string]*inventory.Report
	lost    map[string]error
	busy    map[string]bool
	overlap bool
	refuse  func(backend string, inv *inventory.Report) error
	pulse   chan struct{}
}

func newRecorder() *recorder {
	return &recorder{
		reports: map[string]*inventory.Report{}, lost: map[string]error{}, busy: map[string]bool{},
		pulse: make(chan struct{}, 1),
	}
}

func (r *recorder) enter(backend, call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.overlap = r.overlap || r.busy[backend]
	r.busy[backend] = true
	if call != "" {
		r.calls = append(r.calls, call)
	}
}

func (r *recorder) leave(backend string) {
	r.mu.Lock()
	r.busy[backend] = false
	r.mu.Unlock()
	select {
	case r.pulse <- struct{}{}:
	default:
	}
}

func (r *recorder) Started(backend string, d inventory.Description) {
	r.enter(backend, "started "+backend)
	defer r.leave(backend)
}

func (r *recorder) Described(backend string, d inventory.Description) {
	r.enter(backend, "described "+backend)
	defer r.leave(backend)
}

func (r *recorder) Report(backend string, inv *inventory.Report) error {
	r.enter(backend, fmt.Sprintf("report %s %d", backend, inv.GetGeneration()))
	defer r.leave(backend)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		if err := r.refuse(backend, inv); err != nil {
			return err
		}
	}
	r.reports[backend] = inv
	return nil
}

func (r *recorder) Lost(backend string, reason error) {
	r.enter(backend, "lost "+backend)
	defer r.leave(backend)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost[backend] = reason
}

func (r *recorder) lostFor(backend string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost[backend]
}

func (r *recorder) Changed(backend string) {
	r.enter(backend, "")
	r.leave(backend)
}

// history returns the calls so far, except Changed.
func (r *recorder) history() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.calls...)
}

// count returns how often the call was made.
func (r *recorder) count(call string) int {
	n := 0
	for _, c := range r.history() {
		if c == call {
			n++
		}
	}
	return n
}

// problem returns the text after key in the inventory's problem that starts with it; "" if
// there is none.
func (r *recorder) problem(backend, key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := r.reports[backend]
	if report == nil {
		return ""
	}
	for _, problem := range report.GetProblems() {
		if rest, ok := strings.CutPrefix(problem, key+" "); ok {
			return rest
		}
	}
	return ""
}

func (r *recorder) pid(t *testing.T, backend, key string) int {
	t.Helper()
	pid, err := strconv.Atoi(r.problem(backend, key))
	if err != nil {
		t.Fatalf("the inventory of %s has no %s: %v", backend, key, err)
	}
	return pid
}

// until waits for a condition, which it evaluates after each call to the sink.
func (r *recorder) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	timer := time.NewTimer(patience.Long)
	defer timer.Stop()
	for !done() {
		select {
		case <-r.pulse:
		case <-timer.C:
			t.Fatalf("waited %s for: %s; calls so far: %q", patience.Long, what, r.history())
		}
	}
}

// rig is a supervisor under test with its directories, sink and log.
type rig struct {
	*supervisor.Supervisor
	*recorder
	t          *testing.T
	backendDir string
	runDir     string
	launchers  map[string]string
	paths      *backendv1.HostPaths
	log        *buffer
}

// program is the test binary's name in the backend directory.
const program = "accelmux-backend-test"

func newRig(t *testing.T, timing supervisor.Timing) *rig {
	t.Helper()
	r := &rig{recorder: newRecorder(), t: t, backendDir: tempDir(t), runDir: tempDir(t), log: &buffer{}}
	r.install()
	r.open(timing)
	return r
}

// install puts the test binary into the backend directory: a link, or a copy if the binary's
// own directory is writable by others.
func (r *rig) install() {
	r.t.Helper()
	self, err := os.Executable()
	must(r.t, err)
	info, err := os.Stat(filepath.Dir(self))
	must(r.t, err)
	path := filepath.Join(r.backendDir, program)
	r.describe("settings: {type: object, properties: {count: {type: integer}}}")
	if info.Mode().Perm()&0o022 == 0 {
		must(r.t, os.Symlink(self, path))
		return
	}
	data, err := os.ReadFile(self)
	must(r.t, err)
	must(r.t, os.WriteFile(path, data, 0o755))
}

// describe replaces the manifest of the test program. The fields are added to those that all have.
func (r *rig) describe(fields string) {
	r.t.Helper()
	r.describeIn(r.backendDir, fields)
}

func (r *rig) describeIn(dir, fields string) {
	r.t.Helper()
	programs.Manifest(r.t, filepath.Join(dir, program), usual+fields)
}

// usual are fields of the test program's manifest.
const usual = `
name: test
version: 1.2.3
abilities: [prepare, release, sample]
parameters: {type: object, additionalProperties: false, properties: {count: {type: integer, description: How many.}}}
`

// fast is a timing whose pauses are short, and whose limits are long enough for a
// slow machine.
func fast() supervisor.Timing {
	return supervisor.Timing{
		Timing: plug.Timing{
			Start: patience.Long, Health: patience.Long, Terminate: time.Second, Kill: patience.Long, Reap: 10 * time.Second, Settle: 5 * time.Millisecond,
		},
		Configure: patience.Long, FirstInventory: patience.Long,
		Prepare: patience.Long, Release: patience.Long, Reset: patience.Long, Retire: patience.Long,
		Backoff: time.Millisecond, BackoffLimit: 20 * time.Millisecond,
		Failures: 100, Quarantine: time.Hour, Misconfigured: time.Hour, ProgramPoll: 5 * time.Millisecond, Use: 20 * time.Millisecond,
	}
}

func (r *rig) open(timing supervisor.Timing) {
	r.t.Helper()
	s, err := supervisor.New(supervisor.Options{
		BackendDir: r.backendDir, Plug: plug.Options{RunDir: r.runDir, Launchers: r.launchers, Paths: r.paths}, Sink: r.recorder, Timing: timing,
		Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.Supervisor = s
	r.t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			r.t.Errorf("close: %v", err)
		}
		if r.overlap {
			r.t.Error("the sink was called concurrently for one backend")
		}
		if left, _ := os.ReadDir(filepath.Join(r.runDir, "backends")); len(left) > 0 {
			r.t.Errorf("left in the run directory: %v", left)
		}
		if r.t.Failed() {
			r.t.Logf("log:\n%s", r.log)
		}
	})
}

// spec is a backend with a role. Its heartbeat is slow enough for a slow machine.
func spec(role string, env ...string) supervisor.Spec {
	s := supervisor.Spec{Name: "b", Command: program, Env: map[string]string{roleEnv: role}, Settings: json.RawMessage("{}"), Heartbeat: 10 * time.Second}
	for i := 0; i+1 < len(env); i += 2 {
		s.Env[env[i]] = env[i+1]
		if env[i] == flagEnv {
			s.Sandbox.Allowed.Read = []string{filepath.Dir(env[i+1]) + "/**"}
		}
	}
	return s
}

func with(s supervisor.Spec, settings string) supervisor.Spec {
	s.Settings = json.RawMessage(settings)
	return s
}

// status is that of backend b.
func (r *rig) status() supervisor.Status {
	for _, s := range r.Status() {
		if s.Name == "b" {
			return s
		}
	}
	return supervisor.Status{}
}

// untilState waits until b is in the state.
func (r *rig) untilState(state supervisor.State) supervisor.Status {
	r.t.Helper()
	var s supervisor.Status
	r.until(r.t, "state "+string(state), func() bool { s = r.status(); return s.State == state })
	return s
}

// run applies a spec and waits until it is in force.
func (r *rig) run(s supervisor.Spec) {
	r.t.Helper()
	r.Apply([]supervisor.Spec{s})
	r.until(r.t, "the spec is in force", func() bool { return r.status().Applied })
}

// command sends a command to b.
func (r *rig) command(ctx context.Context, command string) error {
	return r.prepare(ctx, command, func() {})
}

// prepare sends a command to b, and calls ended when b no longer works on it.
func (r *rig) prepare(ctx context.Context, command string, ended func()) error {
	_, err := r.Prepare(ctx, "b", &backendv1.PrepareRequest{Devices: []*backendv1.HeldDevice{{Id: command}}, Resource: "example.com/gpu"}, 0, ended)
	return err
}

// untilError waits until b's last error contains the text.
func (r *rig) untilError(text string) supervisor.Status {
	r.t.Helper()
	var s supervisor.Status
	r.until(r.t, "an error with "+text, func() bool { s = r.status(); return strings.Contains(s.LastError, text) })
	return s
}

// tempDir is short enough for sockets and private, which t.TempDir is not.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "x")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// buffer is a bytes.Buffer for concurrent use.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// watchExit opens a process to wait for its end, safe against a reused process ID.
func watchExit(t *testing.T, pid int) (ended func()) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	t.Cleanup(func() {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		_ = unix.Close(fd)
	})
	return func() {
		t.Helper()
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			n, err := unix.Poll(fds, int(patience.Long.Milliseconds()))
			if err == unix.EINTR {
				continue
			}
			if err != nil || n == 0 {
				t.Fatalf("process %d still runs: %v", pid, err)
			}
			return
		}
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
