package kubelet

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/accelmux/accelmux/test/kubelet/agent"
)

// mock is what the tests want of the mock backend's devices.
type mock struct {
	Count int
	// NUMANodes are spread over the devices in blocks; 0: the devices name none.
	NUMANodes int
	// Prepare makes every device ask for Prepare before a container starts, Release for
	// Release after its holder has ended.
	Prepare, Release bool
}

// config is the usual configuration: every device in the resource gpu, and no
// delay before a sound device counts as healthy.
func (m mock) config(n *node) agent.Config {
	settings := map[string]any{
		"count":        m.Count,
		"numaNodes":    m.NUMANodes,
		"scenarioFile": n.scenarioFile(),
	}
	var hooks []string
	if m.Prepare {
		hooks = append(hooks, "prepare")
	}
	if m.Release {
		hooks = append(hooks, "release")
	}
	if hooks != nil {
		settings["hooks"] = hooks
	}
	return agent.Config{
		Backend: agent.Backend{
			Name:     "mock",
			Settings: settings,
			Recovery: &agent.Recovery{Delay: "0s"},
		},
		Resources: []agent.Resource{{Name: gpu}},
	}
}

// scenarioFile is what the mock does now; play writes it.
func (n *node) scenarioFile() string {
	return filepath.Join(filepath.Dir(n.agent.ConfigFile()), "scenario", "now.json")
}

// act is what is unusual about one device.
type act struct {
	device string
	entry  map[string]any
}

// fault makes a device unhealthy.
func fault(device, code, recovery string) act {
	return act{device, map[string]any{"fault": map[string]any{"code": code, "recovery": recovery}}}
}

// recovered shows that whatever was wrong with the device is over.
func recovered(device string) act { return act{device, map[string]any{"recovered": true}} }

// prepareDelay makes a device's Prepare slow.
func prepareDelay(device string, delay time.Duration) act {
	return act{device, map[string]any{"prepare": map[string]any{"delay": delay.String()}}}
}

// releaseDelay makes a device's Release slow.
func releaseDelay(device string, delay time.Duration) act {
	return act{device, map[string]any{"release": map[string]any{"delay": delay.String()}}}
}

// play makes the acts what happens from now on, instead of those before.
// Devices without an act are as the settings have them.
func (n *node) play(acts ...act) {
	n.Helper()
	n.perform(nil, acts)
}

// playAndSettle is play for what neither kubelet nor the agent can be asked
// about: it waits until the agent has heard from a backend that plays the acts.
func (n *node) playAndSettle(acts ...act) {
	n.Helper()
	n.scenes++
	mark := fmt.Sprintf("scene %d of the test", n.scenes)
	n.perform([]string{mark}, acts)
	n.eventually("the backend plays "+mark, func() bool {
		status, err := n.agent.Status(n.soon())
		if err != nil {
			return false
		}
		for _, p := range status.Problems {
			if strings.Contains(p.Message, mark) {
				return true
			}
		}
		return false
	})
}

func (n *node) perform(problems []string, acts []act) {
	n.Helper()
	devices := map[string]any{}
	for _, a := range acts {
		devices[a.device] = a.entry
	}
	scenario := map[string]any{"devices": devices}
	if problems != nil {
		scenario["problems"] = problems
	}
	if err := agent.WriteJSON(n.scenarioFile(), scenario); err != nil {
		n.Fatal(err)
	}
}
