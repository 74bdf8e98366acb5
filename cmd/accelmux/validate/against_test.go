package validate

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/status/listing"
)

// saved is a node as a file has it: four GPUs and a partition that could be made, by two resources.
func saved(t *testing.T) Node {
	t.Helper()
	gpu := func(id, model, driver, resource string, replicas int, holders ...listing.Holder) listing.Device {
		return listing.Device{
			Backend: "acme", ID: id, Class: "gpu", Resource: resource, Replicas: replicas, Healthy: true, Holders: holders,
			Attributes: map[string]any{"model": model, "driver": driver, "ports": 4, "modes": []string{"a", "b"}}, Versions: []string{"driver"},
			Capacities: map[string]int64{"memory": 16 << 30},
		}
	}
	text, err := json.Marshal(Node{
		Name: "node-1", Profile: "default", Backends: []Backend{{Name: "acme", Vendor: "Acme", Version: "1.0.0"}},
		Resources: []Resource{{"e.x/gpu", "devicePlugin"}, {"e.x/shared", "devicePlugin"}},
		Devices: []listing.Device{
			gpu("a", "M1", "2.1.0", "e.x/gpu", 0, listing.Holder{Namespace: "team", Pod: "train", Container: "main", Resource: "e.x/gpu", Unit: "a"}),
			gpu("b", "M1", "2.10.0", "e.x/gpu", 0), gpu("c", "M2", "2.1.0", "e.x/shared", 4), gpu("d", "M2", "2.1.0", "e.x/shared", 4),
			{Backend: "acme", ID: "d-1", Class: "part", Parent: "d", Healthy: true, Potential: true},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var n Node
	if err := json.Unmarshal(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Verifies which resources appear, vanish and change, and which devices move, by selectors over all types of attributes.
func TestCompare(t *testing.T) {
	const now = "{name: e.x/gpu, selector: 'device.attributes[\"acme\"].model == \"M1\"'}, "
	const shared = "{name: e.x/shared, class: gpu, replicas: 4}"
	for resources, want := range map[string]string{
		now + shared: "",
		// Another number of replicas.
		now + "{name: e.x/shared, class: gpu, replicas: 2}": "e.x/shared: devicePlugin 2 8 => devicePlugin 2 4\n",
		// To claims, with the partition.
		now + "{name: e.x/shared, api: dra}": "e.x/shared: devicePlugin 2 8 => dra 3 3\nc: e.x/shared devicePlugin => e.x/shared dra\nd: e.x/shared devicePlugin => e.x/shared dra\nd-1:   => e.x/shared dra\n",
		// Versions are compared as such: 2.10.0 is greater than 2.9.0.
		"{name: e.x/new, selector: 'device.attributes[\"acme\"].driver.isGreaterThan(semver(\"2.9.0\"))'}, " + now + shared:                                                                                                                                              "e.x/gpu: devicePlugin 2 2 => devicePlugin 1 1\ne.x/new: => devicePlugin 1 1\nb: e.x/gpu devicePlugin => e.x/new devicePlugin\n",
		"{name: e.x/gpu, selector: 'device.attributes[\"acme\"].ports == 4 && device.attributes[\"acme\"].modes.exists(m, m == \"b\") && device.capacity[\"acme\"].memory.compareTo(quantity(\"16Gi\")) == 0 && device.attributes[\"accelmux.io\"].vendor == \"Acme\"'}": "e.x/gpu: devicePlugin 2 2 => devicePlugin 4 4\ne.x/shared: devicePlugin 2 8 =>\nc: e.x/shared devicePlugin => e.x/gpu devicePlugin\nd: e.x/shared devicePlugin => e.x/gpu devicePlugin\n",
		// What is held moves, too, and is said to.
		"{name: 'e.x/{model}', class: gpu}": "e.x/M1: => devicePlugin 2 2\ne.x/M2: => devicePlugin 2 2\ne.x/gpu: devicePlugin 2 2 => devicePlugin 0 0\ne.x/shared: devicePlugin 2 8 =>\na: e.x/gpu devicePlugin => e.x/M1 devicePlugin, held by team/train/main\nb: e.x/gpu devicePlugin => e.x/M1 devicePlugin\nc: e.x/shared devicePlugin => e.x/M2 devicePlugin\nd: e.x/shared devicePlugin => e.x/M2 devicePlugin\n",
	} {
		c, err := config.Parse("node.yaml", []byte("apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles: [{name: other, backends: [{name: acme}], resources: ["+resources+"]}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		changes, err := Compare(c, saved(t), "")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, outline(changes)); diff != "" || len(changes.Problems) > 0 || changes.InForce != "default" || changes.Profile != "other" {
			t.Errorf("%s: %+v (-want +got)\n%s", resources, changes, diff)
		}
	}
}

func outline(c *Changes) string {
	var b strings.Builder
	count := func(c *Count) string {
		if c == nil {
			return ""
		}
		return strings.Join([]string{c.API, strconv.Itoa(c.Devices), strconv.Itoa(c.Units)}, " ")
	}
	for _, r := range c.Resources {
		b.WriteString(r.Name + ": " + strings.TrimSpace(count(r.Now)+" => "+count(r.Then)) + "\n")
	}
	for _, m := range c.Devices {
		b.WriteString(m.ID + ": " + m.From + " " + m.FromAPI + " => " + m.To + " " + m.ToAPI)
		if len(m.Holders) > 0 {
			b.WriteString(", held by " + listing.HoldersText(m.Holders))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Verifies which profile is compared, and that backends which the node does not run are named.
func TestComparedProfile(t *testing.T) {
	for _, c := range []struct{ profiles, named, want, unknown, err string }{
		{"{name: default, backends: [{name: acme}]}, {name: b, backends: [{name: acme}]}", "", "default", "", ""},
		{"{name: default, backends: [{name: acme}]}, {name: b, backends: [{name: late}]}", "b", "b", "late", ""},
		{"{name: b, backends: [{name: acme}, {name: late}]}", "", "b", "late", ""},
		{"{name: b, backends: [{name: acme}]}, {name: c, backends: [{name: acme}]}", "", "", "", `which profile node node-1 would have is not known: no profile "default"; the configuration has b, c; name it with --profile`},
		{"{name: b, backends: [{name: acme}]}", "c", "", "", `no profile "c"`},
	} {
		parsed, err := config.Parse("node.yaml", []byte("apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles: ["+c.profiles+"]\n"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Compare(parsed, saved(t), c.named)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", c.profiles, err, c.err)
			}
			continue
		}
		if err != nil || got.Profile != c.want || strings.Join(got.Unknown, " ") != c.unknown {
			t.Errorf("%s: %+v, %v", c.profiles, got, err)
		}
	}
}

// Verifies that partitions that move alike share a line.
func TestPartitionsShareALine(t *testing.T) {
	var c Changes
	for i := range 4 {
		c.Devices = append(c.Devices, Move{Backend: "acme", ID: "p" + strconv.Itoa(i), Parent: "a", From: "e.x/a"})
	}
	c.Devices[3].Holders = []listing.Holder{{Namespace: "team", Pod: "train", Container: "main"}}
	var got strings.Builder
	c.write(&got)
	if text := got.String(); !strings.Contains(text, "acme/p0 ... p2 (3)  e.x/a  -   -\nacme/p3             e.x/a  -   team/train/main\n") {
		t.Error(text)
	}
}

// Verifies what people see.
func TestWriteChanges(t *testing.T) {
	r := Run(t.Context(), "node.yaml", []byte(inProfile(`backends: [{name: acme, allow: {declared: accept}}, {name: late, allow: {declared: accept}}], resources: [{name: e.x/gpu, backend: acme, selector: 'device.attributes["acme"].model == "M2"', api: dra}]`)), t.TempDir(), "")
	var err error
	if r.Changes, err = Compare(r.Config, saved(t), ""); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(r.printed(), "is valid (backends: 2, resources: 1)\n")
	const want = `
On node node-1, with its devices as they are now (profile default is in force, a would be):

RESOURCE    API                  DEVICES  UNITS
e.x/gpu     devicePlugin -> dra  2        2
e.x/shared  devicePlugin         2 -> 0   8 -> 0  vanishes

DEVICE  FROM                       TO             HELD BY
acme/a  e.x/gpu                    -              team/train/main
acme/b  e.x/gpu                    -              -
acme/c  e.x/shared (devicePlugin)  e.x/gpu (dra)  -
acme/d  e.x/shared (devicePlugin)  e.x/gpu (dra)  -

1 of these devices is allocated, and moves when its pod or claim has ended.

Not known: the devices of backend late, which does not run on the node now.

Settings of a backend may also change which devices it lists: that shows when it runs.
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
