package supervisor

import (
	"slices"
	"strings"
	"testing"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func TestNeeds(t *testing.T) {
	n, err := ParseNeeds(&backendv1.Needs{
		ReadPaths: []string{"/sys/**", "/sys/**"}, WritePaths: []string{"/"}, OpenDevices: []string{"/dev/acme[0-9]*"}, Capabilities: []string{"CAP_SYS_ADMIN"},
		SystemCalls: []string{"@raw-io"}, Env: []string{"ACME_*", "*", "A"}, Gids: []uint32{44}, Mounts: []string{"/**"},
	})
	if err != nil || !slices.Equal(n.ReadPaths, []string{"/sys/**"}) || len(n.Edits.Env) != 3 {
		t.Errorf("%+v, %v", n, err)
	}
	for want, wire := range map[string]*backendv1.Needs{
		"in read_paths":    {ReadPaths: []string{"sys/x"}},
		"in write_paths":   {WritePaths: []string{"/sys/../etc"}},
		"in open_devices":  {OpenDevices: []string{"/dev/["}},
		"in mounts":        {Mounts: []string{"/a\nb"}},
		"in capabilities":  {Capabilities: []string{"SYS_ADMIN"}},
		"in system_calls":  {SystemCalls: []string{"raw-io"}},
		"in env":           {Env: []string{"A*B"}},
		"root's is not":    {Gids: []uint32{0}},
		"at most 256 are":  {Hooks: slices.Repeat([]string{"/x"}, 257)},
		"257 groups":       {Gids: slices.Repeat([]uint32{1}, 257)},
		"in companions, w": {Companions: []string{"/bin/mps"}},
	} {
		if _, err := ParseNeeds(wire); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}
