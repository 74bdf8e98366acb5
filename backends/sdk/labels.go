package sdk

import (
	"maps"
	"slices"
	"strings"
)

// NodeLabels are labels of a node by name.
type NodeLabels map[string]*NodeLabel

// Sorted returns the labels by name, for [Inventory.NodeLabels].
func (l NodeLabels) Sorted() []*NodeLabel {
	all := make([]*NodeLabel, 0, len(l))
	for _, name := range slices.Sorted(maps.Keys(l)) {
		all = append(all, l[name])
	}
	return all
}

// MaxLabelValue is the longest value of a label, in bytes.
const MaxLabelValue = 63

// LabelValue makes the value of a label from a text that has only characters of label values:
// it trims "-", "_" and "." from its ends, and cuts it after limit bytes.
func LabelValue(text string, limit int) string {
	const edges = "-_."
	text = strings.Trim(text, edges)
	return strings.TrimRight(text[:min(len(text), limit)], edges)
}
