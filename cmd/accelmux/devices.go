package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/core/status"
)

func newDevicesCommand() *cobra.Command {
	return newAskCommand(&cobra.Command{
		Use:   "devices",
		Short: "List the node's devices as the running agent knows them",
		Example: `  accelmux devices
  accelmux devices -o json | jq '.[] | select(.healthy | not)'`,
	}, (*status.Client).Devices, deviceTable)
}

func deviceTable(w *tabwriter.Writer, devices []status.Device) {
	row(w, "BACKEND", "DEVICE", "CLASS", "MODEL", "NUMA", "RESOURCE", "HEALTH", "HELD BY")
	for _, d := range devices {
		row(w, d.Backend, d.ID, d.Class, attribute(d, "model"), numa(d.NUMANodes), resourceWord(d), healthWord(d), holdersColumn(d.Holders))
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
