package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/proto/backendplugin"
)

// Verifies that as many devices as a backend may list are registered, that one of them can
// be allocated, and that a fault of one shows and goes, as with few.
func TestManyDevices(t *testing.T) {
	t.Parallel()
	const manyDevices = backendplugin.MaxDevices
	n := startNode(t, manyDevices, strings.Replace(oneBackend, "count: 4", fmt.Sprintf("count: %d", manyDevices), 1))
	n.allocate("pod", gpu, 2)
	n.scenario("devices: {mock-3999: {fault: {code: x}}}")
	n.wantCounts(gpu, manyDevices, manyDevices-1)
	n.scenario("")
	n.wantCounts(gpu, manyDevices, manyDevices)
	n.scenario("devices: {mock-7: {unplugged: true}}")
	n.wantCounts(gpu, manyDevices-1, manyDevices-1)
	if broken := n.kubelet.State().Counts.Broken; broken != 0 {
		t.Errorf("%d of kubelet's streams broke", broken)
	}
}

// Verifies that of many devices that need a reset only so many are reset at a time, that
// all are in the end, and that a reset of each does not keep the agent from its end.
func TestResetsAtATimeAreBounded(t *testing.T) {
	t.Parallel()
	const devices, bound = 200, 64
	n := startNode(t, devices, strings.Replace(oneBackend, "count: 4", fmt.Sprintf("count: %d", devices), 1))
	n.scenario(`devices: {"mock-*": {fault: {code: stuck, recovery: reset}, reset: {delay: 300ms}}}`)
	n.wantCounts(gpu, devices, 0)
	most := 0
	n.eventually("all were reset", func() bool {
		resetting := 0
		for _, d := range n.agent.Devices() {
			for _, f := range d.Faults {
				if f.Code == "resetting" {
					resetting++
				}
			}
		}
		most = max(most, resetting)
		return strings.Count(n.log.String(), `msg="reset done"`) >= devices
	})
	if most == 0 || most > bound {
		t.Errorf("%d devices were reset at a time, want 1 to %d", most, bound)
	}
}
