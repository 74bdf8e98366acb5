package agent

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
)

// readiness is what `accelmux status --ready` prints, on either output, and its exit status.
func (n *node) readiness() (text string, code int) {
	n.Helper()
	out, errs, code := accelmux(n.T, "status", "--ready", "--run-dir", n.path("run"))
	return out + errs, code
}

// `accelmux status --ready` is about serving: with problems beside that it exits with 0, and
// prints each. Devices that no resource selects are one, on one line however many there
// are, and so is a fault that several devices have.
func TestReadyWithProblems(t *testing.T) {
	t.Parallel()
	n := startNode(t, 1, strings.Replace(oneBackend, "{name: example.com/gpu}",
		`{name: example.com/gpu, selector: 'device.attributes["accelmux.io"].id == "mock-0"'}`, 1))
	const unselected = "  backend mock, 3 devices (mock-1, mock-2, mock-3): no resource selects it"
	if text, code := n.readiness(); code != 0 || !strings.HasPrefix(text, "ready, with 1 problem:\n"+unselected) || strings.Count(text, "\n") != 2 {
		t.Errorf("exit %d, %s", code, text)
	}
	n.scenario(`devices: {mock-1: {fault: {code: ecc, message: bank 1, recovery: reboot}}, mock-2: {fault: {code: ecc, message: bank 2, recovery: reboot}}}`)
	n.wantFault("mock-2", "ecc")
	text, code := n.readiness()
	if code != 0 || !strings.HasPrefix(text, "ready, with 2 problems:\n") || !strings.Contains(text, "  backend mock, device mock-3: no resource selects it") ||
		!strings.Contains(text, "  backend mock, 2 devices (mock-1, mock-2): unhealthy: ecc: bank 1") {
		t.Errorf("exit %d, %s", code, text)
	}
}

// A backend that refuses its settings has not "not reported yet".
func TestNotReadySaysMisconfigured(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(strings.Replace(oneBackend, "count: 4", "count: -4", 1))
	n.startAgent()
	n.eventually("the backend is misconfigured", func() bool { return n.backend("mock").State == "misconfigured" })
	if text, code := n.readiness(); code != 1 || !strings.Contains(text, "not ready: backend mock is misconfigured: ") || !strings.Contains(text, "count") {
		t.Errorf("exit %d, %s", code, text)
	}
}

// An agent on a node that no profile is for has nothing to do, and is ready; with a label
// that two profiles are for it has something to do, and is not.
func TestReadyWithNothingToDo(t *testing.T) {
	t.Parallel()
	selective, _, _ := strings.Cut(byLabel, "  - name: default")
	server := clustertest.New(t, "node-1", vendor("none"))
	n := newNode(t)
	n.startKubelet()
	n.configure(selective)
	n.startAgentWith(n.inCluster(server))
	n.eventually("ready", func() bool { return len(n.agent.Report().NotReady) == 0 })
	const nothing = "ready, with nothing to do: no profile's nodeSelector matches the node's labels"
	if text, code := n.readiness(); code != 0 || !strings.HasPrefix(text, nothing) || n.problems() != "" {
		t.Errorf("exit %d, %s; problems:\n%s", code, text, n.problems())
	}
	server.SetLabels(map[string]string{"vendor": "red", "collide": ""})
	n.wantProblem("no profile can be chosen", "same priority")
	if text, code := n.readiness(); code != 1 || !strings.Contains(text, "not ready: no profile can be chosen") {
		t.Errorf("exit %d, %s", code, text)
	}
	server.SetLabels(vendor("none"))
	n.eventually("ready again", func() bool { return len(n.agent.Report().NotReady) == 0 && n.problems() == "" })
	server.SetLabels(vendor("red"))
	n.wantCounts(gpu, 4, 4)
}
