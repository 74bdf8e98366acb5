package agent

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/events"
)

// Verifies that an agent which is restarted while its configuration file is no
// good goes on with the one that was in force, says so everywhere, and takes the
// file when it is good again.
func TestRestartWithBrokenConfiguration(t *testing.T) {
	t.Parallel()
	named := strings.Replace(byLabel, "name: red\n", "name: crimson\n", 1)
	for name, c := range map[string]struct {
		profile string
		spoil   func(*node)
		says    string
	}{
		"broken":            {"", func(n *node) { n.configure("profiles: [") }, "this is not YAML"},
		"missing":           {"", func(n *node) { n.remove("node.yaml") }, "no such file"},
		"profile not in it": {"red", func(n *node) { n.configure(named) }, "no profile \"red\""},
	} {
		t.Run(name, func(t *testing.T) {
			n, server, options := startCluster(t, "", 4, vendor("red"), func(o *agent.Options) { o.Profile = c.profile })
			n.stopAgent()

			c.spoil(n)
			n.startAgentWith(options)
			n.wantCounts(gpu, 4, 4)
			n.wantProblem("the configuration file is refused since "+time.Now().UTC().Format("2006-"), ", the last good one stays in force", c.says)
			n.wantEvent(server, events.ConfigurationRefused, c.says)
			n.wantMetrics("accelmux_config_refused 1", "accelmux_ready 1")
			if refused := n.agent.Report().Config.Refused; !strings.Contains(refused, c.says) {
				t.Errorf("status says %q", refused)
			}
			n.mark(gpu)
			n.configure(byLabel)
			n.eventually("no problem is left", func() bool { return n.problems() == "" })
			n.wantMetrics("accelmux_config_refused 0")
			n.configure(strings.Replace(byLabel, "count: 4", "count: 5", 1))
			n.wantCounts(gpu, 5, 5)
			n.wantNoDip(gpu, 4)
		})
	}
}

// Verifies that a start which is refused says where the file is wrong, and why what was in force is
// not used in its place.
func TestStartIsRefused(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend)
	n.stopAgent()
	n.configure("broken")
	if err := os.WriteFile(n.path("state", "profile"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := agent.Open(n.options())
	for _, part := range []string{"node.yaml:1", "corrupt state file"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("with nothing that can be used the error is %v, want it to hold %q", err, part)
		}
	}
}
