package supervisor_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// readFile reads the file that the settings of a needy backend name. It needs the file's directory, and
// refuses the settings if it cannot read it. An insatiable one needs another file in each process.
func (b *backend) readFile(r *backendv1.ConfigureRequest) *backendv1.ConfigureResponse {
	var settings struct{ File string }
	_ = json.Unmarshal(r.GetSettingsJson(), &settings)
	needs := &backendv1.Needs{ReadPaths: []string{filepath.Dir(settings.File) + "/**"}}
	if b.role == "insatiable" {
		needs.ReadPaths = append(needs.ReadPaths, fmt.Sprintf("/opt/%d", os.Getpid()))
	}
	if _, err := os.ReadFile(settings.File); err != nil {
		return &backendv1.ConfigureResponse{Needs: needs, Errors: []*backendv1.FieldError{{Field: "file", Message: err.Error()}}}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.needs = needs
	return nil
}

// needy is the spec of a backend with a file in its settings, in a directory below dir.
func needy(role, dir, name string, policy sandbox.Policy) supervisor.Spec {
	s := with(spec(role, "TEST_DIR", dir), fmt.Sprintf(`{"file": %q}`, filepath.Join(dir, name, "file")))
	s.Env[flagEnv], s.Sandbox = dir, policy
	return s
}

func needyFiles(t *testing.T) string {
	t.Helper()
	dir := tempDir(t)
	for _, name := range []string{"always", "first", "second"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name, "file"), nil, 0o600))
	}
	return dir
}

// processes counts the starts of a needy backend.
func (r *rig) processes() int { return strings.Count(r.log.String(), "a needy process") }

// Verifies that a program gets what it and its settings need: a process that was started with less is
// replaced, also if it refused the settings; the old one serves until the new one does; and that the next agent
// knows what is needed.
func TestNeeds(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t, fast()), needyFiles(t)
	accept := sandbox.Policy{AcceptDeclared: true}
	r.run(needy("needy", dir, "first", accept))
	first := r.status()
	if n := r.processes(); n != 3 || first.Restarts != 0 || len(first.Problems) > 0 || first.LastError != "" {
		t.Errorf("%d processes, want that for the description, and two; status %+v", n, first)
	}
	for _, path := range []string{dir + "/always/**", dir + "/first/**"} {
		if !first.Given.Covers(sandbox.Needs{Read: []string{path}}) {
			t.Errorf("%s is not given: %+v", path, first.Given)
		}
	}
	r.run(needy("needy", dir, "second", accept))
	if s := r.status(); s.PID == first.PID || r.count("lost b") > 0 || r.processes() != 4 || len(s.Problems) > 0 {
		t.Errorf("after other settings: %d processes, %d losses, status %+v", r.processes(), r.count("lost b"), s)
	}
	r.run(needy("needy", dir, "first", accept)) // known by now
	must(t, r.Close(t.Context()))
	r.open(fast())
	before := r.processes()
	r.run(needy("needy", dir, "first", accept))
	if n := r.processes() - before; n != 1 {
		t.Errorf("%d processes of the next agent, want one", n)
	}
}

// Verifies that a process does not get what the configuration neither accepts nor lists, and that a problem has what
// is missing as YAML, which then helps.
func TestNeedsAreNotGiven(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t, fast()), needyFiles(t)
	lists := sandbox.Policy{Allowed: sandbox.Needs{Read: []string{dir + "/first/**"}}}
	r.run(needy("needy", dir, "first", lists))
	want := "allow: {process: {read: [" + dir + "/always/**], capabilities: [CAP_SYS_NICE]}}"
	if s := r.status(); len(s.Problems) != 1 || !strings.HasSuffix(s.Problems[0], want) {
		t.Errorf("problems %q, want %s", s.Problems, want)
	}
	lists.Allowed.Read = append(lists.Allowed.Read, dir+"/always/**")
	lists.Allowed.Capabilities = []string{"CAP_SYS_NICE"}
	r.run(needy("needy", dir, "first", lists))
	if s := r.status(); len(s.Problems) > 0 {
		t.Errorf("problems %q", s.Problems)
	}
	r.Apply([]supervisor.Spec{needy("needy", dir, "second", lists)})
	r.untilError("file: open " + dir + "/second/file")
}

// Verifies that a backend whose needs never end runs with what it got, with a problem.
func TestNeedsNeverEnd(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t, fast()), needyFiles(t)
	r.run(needy("insatiable", dir, "first", sandbox.Policy{AcceptDeclared: true}))
	if s := r.status(); len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "/opt/") || r.processes() != 3 {
		t.Errorf("%d processes, problems %q", r.processes(), s.Problems)
	}
}

// Verifies that a process is replaced when what it needs is made again or appears, while the old one serves, and that
// files in a directory that it needs as a whole replace nothing.
func TestNeedsAppear(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t, fast()), needyFiles(t)
	r.run(needy("needy", dir, "first", sandbox.Policy{AcceptDeclared: true}))
	for _, change := range []func() error{
		func() error { return os.Rename(dir+"/always", dir+"/gone") },
		func() error { return os.RemoveAll(dir + "/first") },
	} {
		first, starts := r.status(), r.processes()
		must(t, os.WriteFile(dir+"/first/new", nil, 0o600))
		must(t, change())
		must(t, os.MkdirAll(dir+"/always", 0o755))
		must(t, os.MkdirAll(dir+"/first", 0o755))
		must(t, os.WriteFile(dir+"/first/file", nil, 0o600))
		r.until(t, "another process", func() bool { s := r.status(); return s.Applied && s.PID != first.PID })
		if s := r.status(); r.count("lost b") > 0 || s.Restarts != 0 || r.processes() != starts+1 {
			t.Errorf("%d processes after %d, %d losses, status %+v", r.processes(), starts, r.count("lost b"), s)
		}
	}
}
