package supervisor_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/supervisor"
)

// Verifies that a program with another checksum than the pinned one is not started,
// that the operator reads both, and that the right program ends the wait.
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
	r.untilError("has the checksum " + right + ", but the configuration pins " + other)
	if got := r.untilState(supervisor.Unavailable); got.PID != 0 || got.Restarts != 0 || !got.Failed {
		t.Errorf("status = %+v", got)
	}
	s.Checksum = right
	r.run(s)
}
