package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

const hotPlugNode = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - {name: fpga}
    resources:
      - {name: example.com/gpu, backend: fpga}
`

// Verifies that a node which the backend opens and that appears replaces its process once, without a moment in which kubelet
// has less, and that a node which goes, and other files of /dev, replace nothing.
func TestNodeAppears(t *testing.T) {
	t.Parallel()
	tree, err := fpgatree.Write(sysroot.TempDir(t), fpgatree.NewD5005())
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(t)
	n.startKubelet()
	n.configure(hotPlugNode)
	options := n.options()
	options.HostPaths = agent.HostPaths{Procfs: "/proc", Devfs: tree.Devfs(), Sysfs: tree.Sysfs()}
	options.Timing.Supervisor.Settle = 20 * time.Millisecond
	n.startAgentWith(options)
	n.wantCounts(gpu, 1, 1)
	n.mark(gpu)
	file := func(name string) string { return filepath.Join(tree.Devfs(), name) }
	first := n.backend("fpga").PID
	if err := errors.Join(os.WriteFile(file("other"), nil, 0o600), os.Remove(file("other")), os.WriteFile(file("dfl-port.8"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	n.eventually("another process", func() bool { pid := n.backend("fpga").PID; return pid != 0 && pid != first })
	second := n.backend("fpga").PID
	if err := errors.Join(os.Remove(file("dfl-port.8")), os.WriteFile(file("other"), nil, 0o600), os.WriteFile(file("dfl-port.9"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	n.eventually("a third process", func() bool { pid := n.backend("fpga").PID; return pid != 0 && pid != second })
	n.wantNoDip(gpu, 1)
	if b := n.backend("fpga"); b.Restarts != 0 || strings.Count(n.log.String(), "files appeared") != 2 || !n.loggedLine("files appeared", "files="+file("dfl-port.9")) {
		t.Errorf("%+v; the log:\n%s", b, n.log.String())
	}
}
