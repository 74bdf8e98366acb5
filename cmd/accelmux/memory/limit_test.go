package memory

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// Verifies that the garbage collector gets the least limit of the process's cgroups, of
// either version, unless the environment sets one.
func TestLimitMemory(t *testing.T) {
	const none = math.MaxInt64
	for name, c := range map[string]struct {
		files map[string]string
		env   string
		want  int64
	}{
		"version 2": {map[string]string{
			"proc/self/cgroup": "0::/kubepods/pod1/c1\n", "sys/fs/cgroup/kubepods/pod1/c1/memory.max": "536870912\n",
		}, "", 402653184},
		"version 2, of the pod": {map[string]string{
			"proc/self/cgroup": "0::/kubepods/pod1/c1\n", "sys/fs/cgroup/kubepods/pod1/c1/memory.max": "max\n",
			"sys/fs/cgroup/kubepods/pod1/memory.max": "268435456\n",
		}, "", 201326592},
		"version 2, a cgroup namespace": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n",
		}, "", 402653184},
		"version 2, from a hidden path": {map[string]string{
			"proc/self/cgroup": "0::/../c2\n", "sys/fs/cgroup/memory.max": "536870912\n",
		}, "", 402653184},
		"version 1": {map[string]string{
			"proc/self/cgroup": "12:cpu,cpuacct:/a\n4:memory:/a\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n",
		}, "", 402653184},
		"the environment's": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n",
		}, "1GiB", none},
		"malformed": {map[string]string{"proc/self/cgroup": "0\n0::/\n", "sys/fs/cgroup/memory.max": "much\n"}, "", none},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOMEMLIMIT", c.env)
			before := debug.SetMemoryLimit(none)
			t.Cleanup(func() { debug.SetMemoryLimit(before) })
			root := t.TempDir()
			for path, text := range c.files {
				if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			Limit(root, slog.New(slog.DiscardHandler))
			if got := debug.SetMemoryLimit(-1); got != c.want {
				t.Errorf("the limit is %d, want %d", got, c.want)
			}
		})
	}
}
