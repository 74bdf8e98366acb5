package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/suggestion"
)

func newDevicesCommand() *cobra.Command {
	var wanted deviceFilter
	command := withWatch(newAskCommand(&cobra.Command{
		Use:   "devices [ID...]",
		Short: "List the node's devices as the running agent knows them",
		Long: `Lists the node's devices as the running agent knows them. With IDs it prints all that is known
of each: every fault with what happened and what to do, attributes, capacities, who holds it. An ID is the
device's, or BACKEND/ID.

The table has one line for three or more partitions of a device that differ in nothing but their IDs;
-o wide has a line for each. -o json and yaml are lists of devices in every case.`,
		Example: `  accelmux devices
  accelmux devices --unhealthy
  accelmux devices GPU-9d2c4a1e-0f7b-4c55-8a0e-2f1d3b6c7e80
  accelmux devices --backend amd -o name
  accelmux devices -o json | jq '.[] | select(.healthy | not)'`,
	}, func(client *status.Client, ctx context.Context) ([]status.Device, error) {
		devices, err := client.Devices(ctx)
		if err != nil {
			return nil, err
		}
		return wanted.of(devices)
	}, func(w *tabwriter.Writer, devices []status.Device) {
		if len(wanted.ids) > 0 {
			deviceDetails(w, devices)
		} else {
			deviceTable(w, foldPartitions(devices))
		}
	}, textFormat[[]status.Device]{"wide", wideTable}, textFormat[[]status.Device]{"name", deviceNames}))
	command.Args = cobra.ArbitraryArgs
	command.PreRun = func(_ *cobra.Command, args []string) { wanted.ids = args }
	flags := command.Flags()
	flags.StringVar(&wanted.backend, "backend", "", "only devices of this `backend`")
	flags.StringVar(&wanted.resource, "resource", "", "only devices of this `resource`")
	flags.BoolVar(&wanted.unhealthy, "unhealthy", false, "only unhealthy devices")
	return command
}

// deviceFilter is which devices are asked for; the zero value is all.
type deviceFilter struct {
	ids               []string
	backend, resource string
	unhealthy         bool
}

// of returns those among the devices. It is an error if one of the IDs is not there.
func (f deviceFilter) of(devices []status.Device) ([]status.Device, error) {
	var known []string
	isAt := func(id string, d status.Device) bool { return id == d.ID || id == d.Backend+"/"+d.ID }
	for _, d := range devices {
		known = append(known, d.ID)
	}
	for _, id := range f.ids {
		if !slices.ContainsFunc(devices, func(d status.Device) bool { return isAt(id, d) }) {
			return nil, fmt.Errorf("there is no device %q on this node%s", id, suggestion.DidYouMean(id, known))
		}
	}
	found := []status.Device{}
	for _, d := range devices {
		asked := len(f.ids) == 0 || slices.ContainsFunc(f.ids, func(id string) bool { return isAt(id, d) })
		if asked && (f.backend == "" || f.backend == d.Backend) && (f.resource == "" || f.resource == d.Resource) && (!f.unhealthy || !d.Healthy) {
			found = append(found, d)
		}
	}
	return found, nil
}

func deviceTable(w *tabwriter.Writer, devices []status.Device) {
	row(w, "BACKEND", "DEVICE", "CLASS", "MODEL", "NUMA", "RESOURCE", "HEALTH", "HELD BY")
	for _, d := range devices {
		row(w, deviceCells(d)...)
	}
}

func deviceCells(d status.Device) []any {
	return []any{d.Backend, d.ID, d.Class, attribute(d, "model"), numa(d.NUMANodes), resourceWord(d), healthWord(d), holdersColumn(d.Holders)}
}

func wideTable(w *tabwriter.Writer, devices []status.Device) {
	row(w, "BACKEND", "DEVICE", "CLASS", "MODEL", "NUMA", "RESOURCE", "HEALTH", "HELD BY", "PCI", "PARENT", "CDI")
	for _, d := range devices {
		row(w, append(deviceCells(d), d.PCIBusID, d.Parent, d.CDI)...)
	}
}

func deviceNames(w *tabwriter.Writer, devices []status.Device) {
	for _, d := range devices {
		fmt.Fprintln(w, d.Backend+"/"+d.ID)
	}
}

// foldPartitions returns the devices with one for each three or more partitions of a device in a row that differ in
// nothing but their IDs: its ID has the first, the last and how many they are.
func foldPartitions(devices []status.Device) (folded []status.Device) {
	same := func(a, b status.Device) bool {
		a.ID = b.ID
		return a.Parent != "" && a.Parent == b.Parent && slices.Equal(deviceCells(a), deviceCells(b))
	}
	for len(devices) > 0 {
		n := 1
		for n < len(devices) && same(devices[0], devices[n]) {
			n++
		}
		if n < 3 {
			n = 1
		}
		first := devices[0]
		if n > 1 {
			first.ID = fmt.Sprintf("%s ... %s (%d)", first.ID, devices[n-1].ID, n)
		}
		folded, devices = append(folded, first), devices[n:]
	}
	return folded
}

// deviceDetails prints a paragraph for each device.
func deviceDetails(w *tabwriter.Writer, devices []status.Device) {
	for i, d := range devices {
		if i > 0 {
			fmt.Fprintln(w)
		}
		line := func(name string, value any) {
			if text := fmt.Sprint(value); text != "" {
				fmt.Fprintf(w, "  %s:\t%s\n", name, text)
			}
		}
		fmt.Fprintf(w, "%s/%s\n", d.Backend, d.ID)
		line("class", d.Class)
		line("resource", cmp.Or(resourceWord(d), "none: no selector takes it"))
		line("health", healthWord(d))
		for _, f := range d.Faults {
			line("fault", fmt.Sprintf("%s, for %s: %s", f.Code, age(f.Since), f.Message))
		}
		line("held by", cmp.Or(holdersColumn(d.Holders), "no container"))
		line("NUMA", numa(d.NUMANodes))
		line("PCI", d.PCIBusID)
		line("part of", d.Parent)
		line("made for claim", d.MadeFor)
		line("CDI", d.CDI)
		for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
			line(name, d.Attributes[name])
		}
		for _, name := range slices.Sorted(maps.Keys(d.Capacities)) {
			line(name, resource.NewQuantity(d.Capacities[name], resource.BinarySI))
		}
	}
}

// resourceWord returns the resource, and how many containers may share the device.
func resourceWord(d status.Device) string {
	if d.Replicas == 0 {
		return d.Resource
	}
	return fmt.Sprintf("%s (shared by %d)", d.Resource, d.Replicas)
}

// healthWord returns "healthy", "potential" for a device that does not exist yet, or the gravest fault and how it may recover.
func healthWord(d status.Device) string {
	if d.Healthy && d.Potential {
		return "potential"
	}
	if d.Healthy {
		return "healthy"
	}
	if len(d.Faults) == 0 {
		return "unhealthy"
	}
	fault := d.Faults[0]
	word := fmt.Sprintf("unhealthy: %s (%s)", fault.Code, fault.Recovery)
	if more := len(d.Faults) - 1; more > 0 {
		word += fmt.Sprintf(" and %d more", more)
	}
	return word
}

func attribute(d status.Device, name string) string {
	if value, ok := d.Attributes[name]; ok {
		return fmt.Sprint(value)
	}
	return ""
}

func numa(nodes []int) string {
	texts := make([]string, len(nodes))
	for i, node := range nodes {
		texts[i] = strconv.Itoa(node)
	}
	return strings.Join(texts, ",")
}

// holdersColumn returns the containers that have a device, and the claims with their containers.
func holdersColumn(all []status.Holder) string {
	var texts []string
	containers := map[string][]string{} // by claim
	for _, h := range all {
		text := holderText(h)
		if h.Claim == "" || !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
		if h.Claim != "" && h.Pod != "" {
			containers[text] = append(containers[text], h.Pod+"/"+h.Container)
		}
	}
	for i, text := range texts {
		if len(containers[text]) > 0 {
			texts[i] += " (" + strings.Join(containers[text], ", ") + ")"
		}
	}
	return strings.Join(texts, ", ")
}

// holderText returns the claim or the container.
func holderText(h status.Holder) string {
	text := h.Namespace + "/" + h.Pod + "/" + h.Container
	switch {
	case h.Claim != "":
		text = "claim " + h.Namespace + "/" + h.Claim
	case h.Pod == "":
		text = "a container that kubelet has not listed yet"
	}
	if h.Ending {
		text += " (ending)"
	}
	return text
}
