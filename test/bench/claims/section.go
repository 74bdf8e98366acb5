// Package claims is the section of dynamic resource allocation.
package claims

import (
	"errors"
	"fmt"
	"time"

	"github.com/accelmux/accelmux/test/bench/rig"
)

// Section is this section of the table.
var Section = rig.Section{
	Name: "claims",
	About: "Dynamic resource allocation, beside a minimal driver: k8s.io/dynamic-resource-allocation/kubeletplugin, slices of 64\n" +
		"devices, one CDI file a claim, synced; the agent syncs the record of the claim. Prepare: kubelet's NodePrepareResources of a new claim of 8\n" +
		"devices without a hook, one call of each side in turns; the agent and the minimal driver are processes.\n" +
		"At rest: requests of the whole agent in 30 s. Memory is RssAnon of the core, with 8 and with 1,024 devices by each API.",
	Measure: measure,
}

const (
	resource = "example.com/plugin"
	few      = 8
	many     = 1024
	pause    = 30 * time.Second
	// settled is how long after its start a node has done all that belongs to it.
	settled = 15 * time.Second
	config  = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: bench
    backends:
      - {name: one, command: accelmux-backend-mock, telemetry: {sample: never}, settings: {count: %[1]d}}
      - {name: two, command: accelmux-backend-mock, telemetry: {sample: never}, settings: {count: %[1]d}}
    resources:
      - {name: example.com/plugin, backend: one}
      - {name: example.com/claims, backend: two, api: %[2]s}
`
	// driver is the name of the second backend's driver.
	driver = "two.accelmux.io"
)

// node is an agent with two backends, and the API server that it has.
type node struct {
	*rig.Node
	server *apiServer // nil: none
}

// start starts a node with so many devices by each API, or all by the device plugin API.
func start(s *rig.Setup, devices int, api string, withServer bool) (_ *node, err error) {
	n := &node{}
	options := rig.NodeOptions{Bin: s.Bin, Config: fmt.Sprintf(config, devices, api), Want: map[string]int{resource: devices}}
	if withServer {
		if n.server, err = startAPIServer(); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, n.server.stop())
			}
		}()
		if options.Dir, err = n.server.directory(); err != nil {
			return nil, err
		}
		options.Args = []string{"--kubeconfig", kubeconfig(options.Dir), "--node-name", nodeName, "--profile", "bench"}
	}
	if n.Node, err = rig.Start(options); err != nil {
		return nil, err
	}
	if api == "dra" {
		if _, err := n.server.await(driver, devices); err != nil {
			return nil, errors.Join(err, n.Stop())
		}
	}
	return n, nil
}

func (n *node) stop() error {
	err := n.Stop()
	if n.server != nil {
		err = errors.Join(err, n.server.stop())
	}
	return err
}

func measure(s *rig.Setup) (figures []rig.Figure, err error) {
	kinds := []struct {
		what    string
		devices int
		api     string
		server  bool
	}{
		{"no API server", few, "devicePlugin", false},
		{"an API server, no claims", few, "devicePlugin", true},
		{"both APIs, 8 devices each", few, "dra", true},
		{"both APIs, 1,024 devices each", many, "dra", true},
	}
	var nodes []*node
	defer func() {
		for _, n := range nodes {
			err = errors.Join(err, n.stop())
		}
	}()
	for _, k := range kinds {
		n, err := start(s, k.devices, k.api, k.server)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.what, err)
		}
		nodes = append(nodes, n)
	}
	small, large := nodes[2], nodes[3]
	prepared, err := prepare(s, small)
	if err != nil {
		return nil, err
	}
	figures = append(prepared, requests(s, small, large)...)
	for i, n := range nodes {
		used, err := rig.Anonymous(n.Agent)
		if err != nil {
			return nil, err
		}
		figures = append(figures, rig.Figure{What: "anonymous memory of the core: " + kinds[i].what, Value: used, Limit: maxMemory, Unit: "MB"})
	}
	return figures, nil
}

const (
	// maxMemory is in MB.
	maxMemory = 40
	// nothing is less than one request.
	nothing = 0.5
)

// requests counts those at rest.
func requests(s *rig.Setup, small, large *node) (figures []rig.Figure) {
	begin, idle := settled, pause
	if s.Quick {
		begin, idle = time.Second, 3*time.Second
	}
	<-time.After(begin)
	nodes := []*node{small, large}
	var reads, writes [2]int64
	for i, n := range nodes {
		reads[i], writes[i] = n.server.Requests()
	}
	<-time.After(idle)
	for i, n := range nodes {
		r, w := n.server.Requests()
		with := fmt.Sprintf(", %d devices", []int{few, many}[i])
		figures = append(figures,
			rig.Figure{What: "writes to the API server at rest" + with, Value: float64(w - writes[i]), Limit: nothing, Unit: "1", Note: "over " + idle.String()},
			rig.Figure{What: "reads at rest, besides watches" + with, Value: float64(r - reads[i]), Limit: nothing, Unit: "1", Note: "over " + idle.String()})
	}
	return figures
}
