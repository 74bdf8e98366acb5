package agent

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/test/programs"
)

// pausable makes a directory with the mock backend, whose manifest has a label that pauses it.
func (n *node) pausable() string {
	n.Helper()
	const program = "accelmux-backend-mock"
	dir := n.path("backends")
	failure := errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755), os.Symlink(filepath.Join(built.Dir(n.T), program), filepath.Join(dir, program)))
	programs.CopyManifest(n, filepath.Join(built.Dir(n.T), program), filepath.Join(dir, program))
	manifest := filepath.Join(dir, program+".yaml")
	text, err := os.ReadFile(manifest)
	text = append(text, "\npausedWhile: [{label: acme.example/deploy.*, values: [paused-*]}]\n"...)
	if err := errors.Join(failure, err, os.WriteFile(manifest, text, 0o644)); err != nil {
		n.Fatal(err)
	}
	return dir
}

func deploy(value string) map[string]string {
	return map[string]string{"acme.example/deploy.plugin": value}
}

// A label by which a vendor's tool asks for it ends the backend's process. Its devices stay, unhealthy with that reason, also
// the one that a container has, and over a restart of the agent; when the label changes, they are healthy again. That is true
// whether or not labels choose the profile.
func TestNodeLabelPausesBackend(t *testing.T) {
	for name, profile := range map[string]string{"profile by labels": "", "profile by name": "default"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := clustertest.New(t, "node-1", deploy("true"))
			n := newNode(t)
			n.startKubelet()
			n.configure(oneBackend)
			options := n.inCluster(server)
			options.BackendDir, options.Profile = n.pausable(), profile
			n.startAgentWith(options)
			n.wantCounts(gpu, 4, 4)
			held := n.allocate("pod", gpu, 1)[0]
			pid := n.backend("mock").PID

			wantPaused := func() {
				n.Helper()
				n.wantCounts(gpu, 4, 0)
				n.wantFault(held, "unread")
				n.wantProblem("mock", "paused", "acme.example/deploy.plugin=paused-for-upgrade")
				n.wantProblem(held, "unread", "acme.example/deploy.plugin=paused-for-upgrade")
				n.eventually("no process runs", func() bool {
					b := n.backend("mock")
					return b.State == string(supervisor.Paused) && b.PID == 0
				})
				n.eventually("pod is the only holder", func() bool {
					holders := n.device(held).Holders
					return len(holders) == 1 && holders[0].Pod == "pod"
				})
			}
			server.SetLabels(deploy("paused-for-upgrade"))
			wantPaused()
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("the backend's process %d: %v", pid, err)
			}
			if err := n.startContainer("pod"); err != nil {
				t.Errorf("a container that restarts meanwhile: %v", err)
			}

			n.stopAgent()
			n.log = lockedBuffer{}
			n.startAgentWith(options)
			wantPaused()
			if n.logged("backend runs") {
				t.Error("the backend ran after the agent's restart")
			}

			server.SetLabels(deploy("true"))
			n.wantCounts(gpu, 4, 4)
			if b := n.backend("mock"); b.Restarts != 0 || b.LastError != "" || b.Paused != "" {
				t.Errorf("afterwards the backend is %+v", b)
			}
			if err := n.startContainer("pod"); err != nil {
				t.Errorf("a container that restarts: %v", err)
			}
		})
	}
}
