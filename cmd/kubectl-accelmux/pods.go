package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/cmd/arguments"
)

// podDevices is a pod with the devices that it has.
type podDevices struct {
	Namespace string   `json:"namespace"`
	Pod       string   `json:"pod"`
	Node      string   `json:"node"`
	Claims    []string `json:"claims,omitempty"`
	Devices   []Device `json:"devices"`
}

func newPodsCommand(connection *connection) *cobra.Command {
	var everywhere bool
	cmd := &cobra.Command{
		Use:   "pods",
		Short: "List the pods that have devices, and which",
		Long:  `Lists the pods that have devices, by either API, among those that you may list.`,
		Example: `  kubectl accelmux pods -A
  kubectl accelmux pods --node gpu-1 -o yaml`,
		Args: arguments.None,
	}
	selection, out := selectionFlags(cmd), outputFlags(cmd, false)
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "of all namespaces")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := connection.open()
		if err != nil {
			return err
		}
		return out.run(cmd, func() (list, error) {
			devices, err := c.devices(cmd.Context(), selection, cmd.ErrOrStderr())
			pods := podsOf(devices)
			if !everywhere {
				pods = slices.DeleteFunc(pods, func(p podDevices) bool { return p.Namespace != c.namespace })
			}
			return podList(pods), err
		})
	}
	return cmd
}

// podsOf returns the pods that have devices, each device once.
func podsOf(devices []Device) []podDevices {
	type key struct{ namespace, pod string }
	pods := map[key]*podDevices{}
	for _, d := range devices {
		for _, h := range d.Holders {
			at := key{h.Namespace, h.Pod}
			if h.Pod == "" {
				continue
			}
			if pods[at] == nil {
				pods[at] = &podDevices{Namespace: h.Namespace, Pod: h.Pod, Node: d.Node}
			}
			p := pods[at]
			if n := len(p.Devices); n == 0 || p.Devices[n-1].Backend != d.Backend || p.Devices[n-1].ID != d.ID {
				p.Devices = append(p.Devices, d)
			}
			if h.Claim != "" && !slices.Contains(p.Claims, h.Claim) {
				p.Claims = append(p.Claims, h.Claim)
			}
		}
	}
	all := []podDevices{}
	for _, at := range slices.SortedFunc(maps.Keys(pods), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.pod, b.pod))
	}) {
		all = append(all, *pods[at])
	}
	return all
}

func podList(pods []podDevices) list {
	l := list{items: pods, columns: []metav1.TableColumnDefinition{
		column("NAMESPACE", 0), column("POD", 0), column("NODE", 0), column("DEVICES", 0), column("UNHEALTHY", 0), column("CLAIMS", 1),
	}}
	for _, p := range pods {
		var devices, unhealthy []string
		for _, d := range p.Devices {
			devices = append(devices, d.Backend+"/"+d.ID)
			if !d.Healthy {
				unhealthy = append(unhealthy, d.ID+" is "+d.HealthText())
			}
		}
		l.names = append(l.names, p.Namespace+"/"+p.Pod)
		l.rows = append(l.rows, []any{p.Namespace, p.Pod, p.Node, strings.Join(devices, ", "), strings.Join(unhealthy, ", "), strings.Join(p.Claims, ", ")})
	}
	return l
}
