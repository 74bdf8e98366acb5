package plug

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Verifies that a process that hangs in the kernel is distinguished from one that a busy node
// has not ended yet, by any of its threads.
func TestWhyAlive(t *testing.T) {
	const pid = 4711
	for name, c := range map[string]struct {
		threads []string
		wchan   string
		want    string
	}{
		"in a driver":        {[]string{"(nvidia) Z 1", "(a) D (b)) D 1"}, "nv_wait", "it hangs in the kernel (nv_wait), most likely in the device's driver"},
		"no symbol":          {[]string{"(nvidia) D 1"}, "0", "it hangs in the kernel, most likely"},
		"has yet to run":     {[]string{"(x) S 1", "(D D) R 1"}, "", "it waits for a processor: the node is very busy"},
		"has yet to be read": {[]string{"(x) Z 1"}, "", "it is ending slowly: the node is very busy"},
		"gone":               {nil, "", "its state cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			procfs := t.TempDir()
			for i, stat := range c.threads {
				dir := filepath.Join(procfs, strconv.Itoa(pid), "task", strconv.Itoa(pid+i))
				must(t, os.MkdirAll(dir, 0o700))
				for file, text := range map[string]string{"stat": strconv.Itoa(pid+i) + " " + stat + "\n", "wchan": c.wchan} {
					must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
				}
			}
			if got := whyAlive(procfs, pid); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := whyAlive("/proc", os.Getpid()); strings.Contains(got, "cannot be read") {
		t.Errorf("of this very process: %q", got)
	}
}
