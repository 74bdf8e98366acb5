package supervisor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/programs"
)

// readFile reads the file that the settings of a reader name, and refuses the settings if it cannot read it.
func readFile(r *backendv1.ConfigureRequest) []*backendv1.FieldError {
	var settings struct{ File string }
	_ = json.Unmarshal(r.GetSettingsJson(), &settings)
	if _, err := os.ReadFile(settings.File); settings.File != "" && err != nil {
		return []*backendv1.FieldError{{Field: "file", Message: err.Error()}}
	}
	return nil
}

// newReader is a rig whose manifest gives the program the directory always, and that of the file in the settings.
func newReader(t *testing.T) (_ *rig, dir string) {
	t.Helper()
	r, dir := newRig(t, fast()), tempDir(t)
	for _, name := range []string{"always", "first", "second"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name, "file"), nil, 0o600))
	}
	r.describe(`
settings: {type: object, properties: {file: {type: string}, count: {type: integer, maximum: 9}, kinds: {type: object}}}
attributes: [{name: model, about: its name}, {keys: kinds, about: one of the settings}]
process:
  - {why: It reads it always., read: [` + dir + `/always/**], capabilities: [CAP_SYS_NICE]}
  - {why: It reads its file., read: [{setting: file, dir: true, below: "**", default: ""}]}
`)
	return r, dir
}

// reader is the spec of a reader with a file in its settings, in a directory below dir, and more settings.
func reader(dir, name, more string, policy sandbox.Policy) supervisor.Spec {
	s := with(spec("reader"), fmt.Sprintf(`{"file": %q%s}`, filepath.Join(dir, name, "file"), more))
	s.Sandbox = policy
	return s
}

// processes counts the starts of a reader.
func (r *rig) processes() int { return strings.Count(r.log.String(), "a reading process") }

var accept = sandbox.Policy{AcceptDeclared: true}

// Verifies that a process has what the manifest and its settings give, from its only start; that settings that need more or
// less mean another process, the old one serving until the new one does; and that others do not.
func TestRights(t *testing.T) {
	t.Parallel()
	r, dir := newReader(t)
	given := func(want ...string) supervisor.Status {
		t.Helper()
		s := r.status()
		if !slices.Equal(s.Given.Read, want) || s.Restarts != 0 || len(s.Problems) > 0 || s.LastError != "" || r.count("lost b") > 0 {
			t.Errorf("given %q, want %q; %d losses, status %+v", s.Given.Read, want, r.count("lost b"), s)
		}
		return s
	}
	always := dir + "/always/**"
	r.run(reader(dir, "first", "", accept))
	first := given(always, dir+"/first/**")
	r.run(reader(dir, "second", "", accept))
	second := given(always, dir+"/second/**")
	if r.processes() != 2 || second.PID == first.PID {
		t.Errorf("%d processes", r.processes())
	}
	r.run(reader(dir, "second", `, "count": 2`, accept))
	if s := given(always, dir+"/second/**"); s.PID != second.PID {
		t.Errorf("settings with the same rights replaced the process")
	}
	less := reader(dir, "second", "", accept)
	less.Settings = json.RawMessage(`{}`)
	r.run(less)
	if s := given(always); s.PID == second.PID || r.processes() != 3 {
		t.Errorf("%d processes, want another one with less", r.processes())
	}
}

// ask adds to an answer of Configure what a process would say if it could ask for more: in each field that the contract does
// not have, messages of paths, as its earlier versions had them.
func ask(answer *backendv1.ConfigureResponse) {
	var all, needs []byte
	for number := range protowire.Number(16) {
		needs = protowire.AppendString(protowire.AppendTag(needs, number+1, protowire.BytesType), "/**")
	}
	for number := protowire.Number(4); number < 32; number++ {
		all = protowire.AppendBytes(protowire.AppendTag(all, number, protowire.BytesType), needs)
	}
	answer.ProtoReflect().SetUnknown(all)
}

// Verifies that nothing that a process answers in Configure gives it, or the next process, more.
func TestNothingWidens(t *testing.T) {
	t.Parallel()
	r, dir := newReader(t)
	greedy := reader(dir, "first", "", accept)
	greedy.Env[roleEnv] = "greedy"
	r.run(greedy)
	first := r.status()
	again := greedy
	again.Settings = json.RawMessage(strings.Replace(string(greedy.Settings), "}", `, "count": 1}`, 1))
	r.run(again)
	if err := r.command(t.Context(), "crash"); err == nil {
		t.Error("Prepare answered from a dead process")
	}
	r.until(t, "another process", func() bool { s := r.status(); return s.State == supervisor.Running && s.PID != first.PID })
	s := r.status()
	if want := []string{dir + "/always/**", dir + "/first/**"}; !slices.Equal(s.Given.Read, want) || len(s.Given.Write)+len(s.Given.Open) > 0 || !s.Description.Edits.Empty() {
		t.Errorf("given %+v, edits %+v", s.Given, s.Description.Edits)
	}
	if s.Restarts != 1 || len(s.Problems) > 0 {
		t.Errorf("status %+v", s)
	}
}

// Verifies that other attributes of accepted settings are reported.
func TestAttributesOfSettings(t *testing.T) {
	t.Parallel()
	r, dir := newReader(t)
	r.run(reader(dir, "first", "", accept))
	pid := r.status().PID
	r.run(reader(dir, "first", `, "kinds": {"speed": 1}`, accept))
	s := r.status()
	if n := len(s.Description.Attributes); n != 2 || s.Description.Attributes[1].Name != "speed" || r.count("described b") != 1 || s.PID != pid {
		t.Errorf("calls %q, description %+v", r.history(), s.Description)
	}
}

// Verifies that a process does not get what the configuration neither accepts nor lists, and that a problem has what
// is missing as YAML, which then helps.
func TestRightsAreNotGiven(t *testing.T) {
	t.Parallel()
	r, dir := newReader(t)
	lists := sandbox.Policy{Allowed: sandbox.Needs{Read: []string{dir + "/first/**"}}}
	r.run(reader(dir, "first", "", lists))
	want := "allow: {process: {read: [" + dir + "/always/**], capabilities: [CAP_SYS_NICE]}}"
	if s := r.status(); len(s.Problems) != 1 || !strings.HasSuffix(s.Problems[0], want) {
		t.Errorf("problems %q, want %s", s.Problems, want)
	}
	lists.Allowed.Read = append(lists.Allowed.Read, dir+"/always/**")
	lists.Allowed.Capabilities = []string{"CAP_SYS_NICE"}
	r.run(reader(dir, "first", "", lists))
	if s := r.status(); len(s.Problems) > 0 {
		t.Errorf("problems %q", s.Problems)
	}
	r.Apply([]supervisor.Spec{reader(dir, "second", "", lists)})
	r.untilError("file: open " + dir + "/second/file")
}

// Verifies that settings that the manifest refuses start no process, and change nothing in a running one, also not after its
// crash; and that the same holds for settings that lead to what no backend may have.
func TestRefusedByTheManifest(t *testing.T) {
	t.Parallel()
	for want, settings := range map[string]string{
		"the settings are refused: count: must be a whole number of at most 9": `{"count": 10}`,
		"may not be given to any backend":                                      `{"file": "/var/lib/kubelet/pods/file"}`,
	} {
		r, _ := newReader(t)
		good := with(spec("reader"), `{"count": 2}`)
		good.Sandbox = accept
		bad := with(good, settings)
		r.Apply([]supervisor.Spec{bad})
		r.untilError(want)
		if s := r.untilState(supervisor.Misconfigured); s.PID != 0 || s.Restarts != 0 || !s.Failed || r.processes() != 0 {
			t.Errorf("%d processes, status %+v", r.processes(), s)
		}
		r.run(good)
		pid := r.status().PID
		r.Apply([]supervisor.Spec{bad})
		refused := func(s supervisor.Status) bool {
			return s.State == supervisor.Running && len(s.Problems) == 1 && strings.Contains(s.Problems[0], want) && strings.HasSuffix(s.Problems[0], "the earlier settings stay in force")
		}
		r.until(t, "a problem", func() bool { s := r.status(); return refused(s) && s.PID == pid })
		if err := r.command(t.Context(), "crash"); err == nil {
			t.Error("Prepare answered from a dead process")
		}
		r.until(t, "it is back with a problem", func() bool { s := r.status(); return refused(s) && s.PID != pid && s.Restarts == 1 })
		if got := r.problem("b", "settings"); got != `{"count": 2}` {
			t.Errorf("settings after the crash = %s", got)
		}
		must(t, r.Close(t.Context()))
	}
}

// Verifies that settings which a program accepted in an earlier run are in force while it refuses the newest, after its crash
// as well; that a manifest which refuses them by its schema is a problem alone; and that the devices are lost, and both
// reasons are said, once the program refuses them, too.
func TestFallback(t *testing.T) {
	t.Parallel()
	const refused = "devices[2].memory: must be a power of two"
	r := newRig(t, fast())
	s := with(spec("normal"), `{"count": 3, "x": "refuse-me"}`)
	s.Fallback = json.RawMessage(`{"count": 12}`)
	served := func(what string, problems ...string) {
		t.Helper()
		r.until(t, what, func() bool {
			s := r.status()
			return s.State == supervisor.Running && s.Failed && string(s.Accepted) == `{"count": 12}` && slices.EqualFunc(s.Problems, problems, strings.Contains)
		})
		if got := r.problem("b", "settings"); got != `{"count": 12}` {
			t.Errorf("%s: the settings are %s", what, got)
		}
	}
	r.Apply([]supervisor.Spec{s})
	served("the fallback", refused)
	must(t, r.Close(t.Context()))

	r.describe("settings: {type: object, properties: {count: {type: integer, maximum: 9}}}")
	const byManifest = "by its manifest the settings are refused: count: must be a whole number of at most 9, is 12; they stay in force"
	r.open(fast())
	r.Apply([]supervisor.Spec{s})
	served("what another manifest refuses", refused, byManifest)
	if err := r.command(t.Context(), "crash"); err == nil {
		t.Error("Prepare answered from a dead process")
	}
	r.until(t, "another process", func() bool { return r.status().Restarts == 1 })
	served("after a crash", refused, byManifest)
	must(t, r.Close(t.Context()))

	r.open(fast())
	s.Fallback = json.RawMessage(`{"count": 4, "x": "refuse-me"}`)
	r.Apply([]supervisor.Spec{s})
	last := r.untilState(supervisor.Misconfigured)
	if !strings.Contains(last.LastError, "the earlier settings are refused, too") || len(last.Problems) > 0 || last.Accepted != nil {
		t.Errorf("with nothing that the program accepts: %+v", last)
	}
	if r.until(t, "it is lost", func() bool { return errors.As(r.lostFor("b"), new(*supervisor.SettingsError)) }); r.status().PID != 0 {
		t.Errorf("a process runs: %+v", r.status())
	}
}

// Verifies that a program and a manifest of two versions are tried again while both may be being replaced, and then are a
// failure that names both, which the right file ends.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	timing := fast()
	timing.Upgrade = time.Hour
	r := newRig(t, timing)
	path := filepath.Join(r.backendDir, program)
	programs.Manifest(t, path, strings.Replace(usual, "1.2.3", "2.0.0", 1))
	r.Apply([]supervisor.Spec{spec("normal")})
	r.until(t, "a second try", func() bool { return strings.Count(r.log.String(), "do not belong together") > 1 })
	if s := r.status(); s.Failed || s.LastError != "" || s.RetryAt.IsZero() {
		t.Errorf("while files are replaced: status %+v", s)
	}
	programs.Manifest(t, path, usual)
	r.untilState(supervisor.Running)
	if s := r.status(); s.Restarts != 0 || s.LastError != "" {
		t.Errorf("after the upgrade: status %+v", s)
	}
	must(t, r.Close(t.Context()))

	timing.Upgrade, timing.BackoffLimit = time.Nanosecond, time.Hour
	r = newRig(t, timing)
	path = filepath.Join(r.backendDir, program)
	programs.Manifest(t, path, strings.Replace(usual, "name: test", "name: other", 1))
	r.Apply([]supervisor.Spec{spec("normal")})
	r.untilError("the program " + path + " is test 1.2.3, but its manifest " + path + ".yaml is for other 1.2.3: install a program and a manifest of one version")
	if s := r.untilState(supervisor.Unavailable); s.Restarts != 0 || !s.Failed {
		t.Errorf("status %+v", s)
	}
	programs.Manifest(t, path, usual)
	r.untilState(supervisor.Running)
}

// Verifies that a program without a manifest is not started, and what the operator reads.
func TestNoManifest(t *testing.T) {
	t.Parallel()
	r := newRig(t, fast())
	path := filepath.Join(r.backendDir, program)
	must(t, os.Remove(path+".yaml"))
	r.Apply([]supervisor.Spec{spec("normal")})
	r.untilError("the manifest " + path + ".yaml of the program does not exist: install it with the program")
	if s := r.untilState(supervisor.Unavailable); s.PID != 0 {
		t.Errorf("status %+v", s)
	}
	programs.Manifest(t, path, usual)
	r.untilState(supervisor.Running)
}

// Verifies that a schema that cannot be used is what the message says is wrong, not the settings.
func TestUnusableSchema(t *testing.T) {
	t.Parallel()
	r := newRig(t, fast())
	r.describe(`settings: {type: object, properties: {count: {$ref: "https://example.com/x.json"}}}`)
	r.Apply([]supervisor.Spec{with(spec("normal"), `{"count": 1}`)})
	s := r.untilState(supervisor.Misconfigured)
	if want := "the settings cannot be checked: the schema of settings in the manifest cannot be used: "; !strings.HasPrefix(s.LastError, want) || strings.Contains(s.LastError, "refused") {
		t.Errorf("%q, want %q", s.LastError, want)
	}
}
