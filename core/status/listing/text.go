package listing

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ResourceText returns the resource, and how many containers may share the device; "" if no selector takes it.
func (d Device) ResourceText() string {
	if d.Replicas == 0 {
		return d.Resource
	}
	return fmt.Sprintf("%s (shared by %d)", d.Resource, d.Replicas)
}

// HealthText returns "healthy", "potential" for a device that does not exist yet, or the gravest fault and what it needs
// to recover: "unhealthy: xid-79 (needs reboot)".
func (d Device) HealthText() string {
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
	text := "unhealthy: " + fault.Code
	switch fault.Recovery {
	case "", "self":
	case "reset", "reboot", "replacement":
		text += " (needs " + fault.Recovery + ")"
	default: // a taint's effect
		text += " (" + fault.Recovery + ")"
	}
	if more := len(d.Faults) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// FaultText returns the message of the gravest fault; "" if there is none.
func (d Device) FaultText() string {
	if len(d.Faults) == 0 {
		return ""
	}
	return d.Faults[0].Message
}

// AttributeText returns the value of an attribute; "" if the device has none of that name.
func (d Device) AttributeText(name string) string {
	if value, ok := d.Attributes[name]; ok {
		return fmt.Sprint(value)
	}
	return ""
}

// NUMAText returns the NUMA nodes, with commas between them.
func NUMAText(nodes []int) string {
	texts := make([]string, len(nodes))
	for i, node := range nodes {
		texts[i] = strconv.Itoa(node)
	}
	return strings.Join(texts, ",")
}

// HoldersText returns the containers that have a device, and the claims with their containers.
func HoldersText(all []Holder) string {
	var texts []string
	containers := map[string][]string{} // by claim
	for _, h := range all {
		text := h.text()
		if h.Claim == "" || !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
		container := strings.TrimSuffix(h.Pod+"/"+h.Container, "/") // the pod, if containers are not known
		if h.Claim != "" && h.Pod != "" && !slices.Contains(containers[text], container) {
			containers[text] = append(containers[text], container)
		}
	}
	for i, text := range texts {
		if len(containers[text]) > 0 {
			texts[i] += " (" + strings.Join(containers[text], ", ") + ")"
		}
	}
	return strings.Join(texts, ", ")
}

// text returns the claim or the container, or the pod if its container is not known.
func (h Holder) text() string {
	text := strings.TrimSuffix(h.Namespace+"/"+h.Pod+"/"+h.Container, "/")
	switch {
	case h.ClaimHash != "":
		text = "a claim (name hidden)"
	case h.PodHash != "" && h.Claim == "":
		text = "a pod (name hidden)"
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

// FoldPartitions returns the devices with one for each three or more partitions of a device in a row that share
// a row of a table, their IDs aside: its ID has the first, the last and how many they are. part returns a
// device's parent, where its ID is, and the other cells of its row.
func FoldPartitions[T any](devices []T, part func(*T) (parent string, id *string, cells []any)) (folded []T) {
	for len(devices) > 0 {
		first := devices[0]
		parent, id, cells := part(&first)
		n, last := 1, ""
		for ; parent != "" && n < len(devices); n++ {
			also, lastID, same := part(&devices[n])
			if also != parent || !slices.Equal(cells, same) {
				break
			}
			last = *lastID
		}
		if n < 3 {
			n = 1
		} else {
			*id = fmt.Sprintf("%s ... %s (%d)", *id, last, n)
		}
		folded, devices = append(folded, first), devices[n:]
	}
	return folded
}
