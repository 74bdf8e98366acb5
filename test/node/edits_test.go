package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// filesDir has the files that containers get with devices.
const filesDir = playDir + "/files"

// gpusWithFiles have a file each.
const gpusWithFiles = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        allow: {mounts: [/run/play/files/**]}
        settings:
          count: 8
          numaNodes: 2
          edits:
            env: {"ACCELMUX_MOCK_{{.EnvName}}": "{{.ID}}"}
            deviceNodes: [{path: "/dev/accelmux-mock/{{.ID}}", hostPath: /dev/null, permissions: rw}]
            mounts: [{hostPath: "/run/play/files/{{.ID}}", containerPath: "/mnt/{{.ID}}"}]
    resources:
      - name: example.com/big
        selector: device.attributes["mock"].index < 2
      - name: example.com/gpu
`

// installWithFiles makes a file for each device, and installs gpusWithFiles.
func (n *node) installWithFiles() {
	n.Helper()
	if err := os.MkdirAll(filesDir, 0o755); err != nil {
		n.Fatal(err)
	}
	for _, id := range allMocks() {
		if err := os.WriteFile(filepath.Join(filesDir, id), nil, 0o600); err != nil {
			n.Fatal(err)
		}
	}
	n.install(gpusWithFiles, values{"hostPaths": values{"edits": []string{filesDir}}})
}

// Verifies that the agent in its pod checks what files of the node lead to, that a bad file removes only its
// own device, which comes back with a good one, and that containers get nothing that the agent cannot see.
func TestEditsAreCheckedOnTheNode(t *testing.T) {
	n := begin(t)
	n.installWithFiles()
	n.wantCounts("example.com/big", 2, 2)
	n.wantCounts(gpu, 6, 6)

	at := func(id string) string { return filepath.Join(filesDir, id) }
	if err := errors.Join(
		os.Remove(at("mock-2")), os.Symlink("/etc/ssl", at("mock-2")),
		os.Remove(at("mock-3")), os.Symlink("mock-4", at("mock-3")),
		os.Remove(at("mock-5")),
		unix.Mount("/etc/hostname", at("mock-6"), "", unix.MS_BIND, ""),
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at("mock-6"), 0); err != nil {
			t.Error(err)
		}
	})
	n.wantCounts(gpu, 3, 3)
	n.wantProblem(`mount "/run/play/files/mock-2" leads to "/etc/ssl", which the configuration does not allow`)
	n.wantProblem(`mount "/run/play/files/mock-5" does not exist on the node`)
	n.wantProblem(`mount "/run/play/files/mock-6" is on a mount at /run/play/files/mock-6 of a directory that the agent's container does not see`)
	if err := os.WriteFile(at("mock-5"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n.wantCounts(gpu, 4, 4)

	n.upgrade(gpusWithFiles)
	n.wantProblem("is in none of the directories in hostPaths.edits of the chart: add its directory there")
}
