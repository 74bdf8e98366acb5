package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/status"
)

// The configuration changes while the agent runs. A good one takes effect without
// a restart; one that is broken, or names a backend that is not there, is told in
// an Event and in the status, and takes nothing away.
func TestConfigurationChanges(t *testing.T) {
	n := begin(t)
	n.install(eightGPUs)
	n.wantCounts(gpu, 8, 8)
	before := n.agentPod()
	w := n.watch(gpu)

	n.upgrade(strings.Replace(eightGPUs, "count: 8", "count: 10", 1))
	n.wantCounts(gpu, 10, 10)

	n.writeConfig(strings.Replace(eightGPUs, "count: 8", "count: [8", 1))
	n.wantEvent("ConfigurationRefused", "node.yaml")
	n.wantReport("the status says what is wrong with the file", func(r status.Report) bool { return r.Config.Refused != "" })
	t.Log(n.report().Config.Refused)

	n.writeConfig(strings.Replace(eightGPUs, "    resources:", "      - name: absent\n    resources:", 1))
	n.wantEvent("BackendFailed", "absent")
	n.wantReport("the status says that a backend is not there", func(r status.Report) bool {
		return r.Config.Refused == "" && slices.ContainsFunc(r.Problems, func(p status.Problem) bool { return p.Backend == "absent" })
	})

	n.writeConfig(eightGPUs)
	n.wantReport("all is well", func(r status.Report) bool {
		return r.Config.Refused == "" && len(r.NotReady) == 0 && len(r.Problems) == 0
	})
	n.wantCounts(gpu, 8, 8)
	w.wantNoDip()
	n.wantUntouched(before)
}

// writeConfig changes the ConfigMap past the chart, which would refuse a bad one.
func (n *node) writeConfig(config string) {
	n.Helper()
	patch := fmt.Sprintf(`{"data": {"node.yaml": %q}}`, config)
	_, err := client.CoreV1().ConfigMaps(namespace).Patch(n.soon(), release, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		n.Fatal(err)
	}
}
