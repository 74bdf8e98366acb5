package agent

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/programs"
)

// cameras is a node with a backend of backends/examples.
const cameras = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: camera
        checksum: CHECKSUM
        recovery: {delay: 0s}
        allow: {declared: accept}
    resources:
      - {name: example.com/camera}
`

// Verifies that the example backends serve cameras to kubelet, each by an ID of the
// hardware, and that they report one that is unplugged. The one in Python is a script, and
// both are pinned by their checksum.
func TestExamples(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func(tb testing.TB, program string){
		"go":     func(tb testing.TB, program string) { programs.Build(tb, program, "../../backends/examples/camera") },
		"python": programs.BuildPython,
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			program := n.path("backends", "accelmux-backend-camera")
			if err := os.Mkdir(filepath.Dir(program), 0o755); err != nil {
				t.Fatal(err)
			}
			build(t, program)
			programs.Script(t, "../../backends/examples/tree.sh", n.dir)
			data, err := os.ReadFile(program)
			if err != nil {
				t.Fatal(err)
			}
			n.startKubelet()
			n.configure(strings.ReplaceAll(cameras, "CHECKSUM", fmt.Sprintf("sha256:%x", sha256.Sum256(data))))
			options := n.optionsOf(filepath.Dir(program))
			options.HostPaths.Devfs = n.path("dev")
			n.startAgentWith(options)

			const resource = "example.com/camera"
			n.wantCounts(resource, 2, 2)
			got := n.allocate("pod", resource, 2)
			if want := []string{"0000:00:14.0-3", "046d-0825-8A2B3C4D"}; !slices.Equal(got, want) {
				t.Errorf("allocated %q, want %q", got, want)
			}
			spec := fmt.Sprint(n.definitions("camera", "camera"))
			for _, node := range []string{"/dev/video0", "/dev/video1", "/dev/video2"} {
				if !strings.Contains(spec, node) {
					t.Errorf("no CDI device has %s:\n%s", node, spec)
				}
			}
			if err := os.Remove(n.path("sys", "bus", "usb", "devices", "1-3")); err != nil {
				t.Fatal(err)
			}
			n.wantCounts(resource, 2, 1)
			n.wantFault("0000:00:14.0-3", "device-gone")
		})
	}
}
