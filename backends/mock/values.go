package mock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// quantity is an amount in base units, written as a number or as "16Gi".
type quantity int64

var quantityForm = regexp.MustCompile(`^([0-9]{1,18})([KMGTP]i?)?$`)

// suffixes of a quantity, as in Kubernetes.
var suffixes = map[string]int64{
	"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50,
}

func (q *quantity) UnmarshalJSON(data []byte) error {
	text := string(data)
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	m := quantityForm.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("want a whole number of 0 or more, or one with a suffix such as 16Gi, got %s", data)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	unit := suffixes[m[2]]
	if err != nil || n > math.MaxInt64/unit {
		return fmt.Errorf("%s is too much: at most %d", data, int64(math.MaxInt64))
	}
	*q = quantity(n * unit)
	return nil
}

// maxNUMANode bounds node numbers; Linux has at most 1,024 nodes.
const maxNUMANode = 1023

// numaNodes defines the NUMA node of each device of a group: a number n spreads the group over
// the nodes 0 to n-1 in blocks, a list is repeated. Zero means unknown, and so does -1 in a
// list.
type numaNodes struct {
	spread int
	list   []int
}

func (n *numaNodes) UnmarshalJSON(data []byte) error {
	*n = numaNodes{}
	err := json.Unmarshal(data, &n.spread)
	if bytes.HasPrefix(data, []byte("[")) {
		err = json.Unmarshal(data, &n.list)
	}
	if err != nil || n.spread < 0 || n.spread > maxNUMANode+1 {
		return errors.New("want how many nodes to spread the devices over (0 to 1024), or a list of node numbers")
	}
	for _, node := range n.list {
		if node < -1 || node > maxNUMANode {
			return fmt.Errorf("%d is no NUMA node: want 0 to %d, or -1 for unknown", node, maxNUMANode)
		}
	}
	return nil
}

// node returns the NUMA node of device i of count, or -1.
func (n *numaNodes) node(i, count int) int {
	switch {
	case n == nil:
		return -1
	case len(n.list) > 0:
		return n.list[i%len(n.list)]
	case n.spread > 0:
		return i * n.spread / count
	}
	return -1
}

// value is a typed attribute: a string, a whole number, true or false, or
// {"version": "1.2.3"}.
type value struct{ wire *sdk.Attribute }

func (v *value) UnmarshalJSON(data []byte) error {
	var text string
	var number int64
	var yes bool
	var version struct {
		Version string `json:"version"`
	}
	switch {
	case json.Unmarshal(data, &text) == nil:
		v.wire = sdk.String(text)
	case json.Unmarshal(data, &number) == nil:
		v.wire = sdk.Int(number)
	case json.Unmarshal(data, &yes) == nil:
		v.wire = sdk.Bool(yes)
	case json.Unmarshal(data, &version) == nil && version.Version != "":
		v.wire = sdk.Version(version.Version)
	default:
		return errors.New(`want a string, a whole number, true, false or {"version": "1.2.3"}`)
	}
	return nil
}

// linkKind is the name of a link kind: the wire's, in lower case without its prefix.
func linkKind(name string) (backendv1.LinkKind, bool) {
	k, ok := backendv1.LinkKind_value["LINK_KIND_"+strings.ToUpper(name)]
	return backendv1.LinkKind(k), ok && k != 0 && name == strings.ToLower(name)
}

// recovery returns self, reset, reboot or replacement.
func recovery(name string) (sdk.Recovery, bool) {
	r, ok := backendv1.Recovery_value["RECOVERY_"+strings.ToUpper(name)]
	return sdk.Recovery(r), ok && r != 0 && name == strings.ToLower(name)
}

// reach returns whom a fault affects, by its name in the scenario.
func reach(name string) (backendv1.Reach, bool) {
	r, ok := map[string]backendv1.Reach{
		"new-holders": sdk.ReachNewHolders, "device": sdk.ReachDevice, "holders": sdk.ReachHolders,
	}[name]
	return r, ok
}
