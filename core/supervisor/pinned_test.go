package supervisor_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/test/patience"
)

// Verifies that a program with another checksum than the pinned one is not started and, however often
// it is tried, not counted as a process; that the operator reads both, and that the right program ends the wait.
func TestPinnedProgram(t *testing.T) {
	t.Parallel()
	r := newRig(t, fast())
	path := filepath.Join(r.backendDir, program)
	data, err := os.ReadFile(path)
	must(t, err)
	sum := sha256.Sum256(data)
	right, other := "sha256:"+hex.EncodeToString(sum[:]), "sha256:"+strings.Repeat("0", 64)
	s := spec("normal")
	s.Checksum = other
	r.Apply([]supervisor.Spec{s})
	first := r.untilError("has the checksum " + right + ", but the configuration pins " + other)
	r.until(t, "another try", func() bool { return r.status().LastErrorAt.After(first.LastErrorAt) })
	if got := r.untilState(supervisor.Unavailable); got.PID != 0 || got.Restarts != 0 || !got.Failed {
		t.Errorf("status = %+v", got)
	}
	s.Checksum = right
	r.run(s)
}

// Verifies that a running process outlives its program, and what the operator reads when that was
// replaced or removed.
func TestProgramReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t, fast())
	r.run(spec("normal"))
	path := filepath.Join(r.backendDir, program)
	pid := r.status().PID
	wantProblem := func(want string) {
		t.Helper()
		patience.Until(t, want, func() bool { return strings.Contains(strings.Join(r.status().Problems, " "), want) })
		if s := r.status(); s.PID != pid || s.State != supervisor.Running {
			t.Errorf("status = %+v", s)
		}
	}
	must(t, errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o755)))
	wantProblem("was replaced: the process of the old program keeps running")
	must(t, os.Remove(path))
	wantProblem("is missing or cannot be reached: the process keeps running")
}
