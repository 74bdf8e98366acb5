package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/cmd/arguments/argumentstest"
	"github.com/accelmux/accelmux/core/cordon"
	"github.com/accelmux/accelmux/core/status/listing"
)

const (
	podsPath   = "/api/v1/pods"
	claimsPath = "/apis/resource.k8s.io/v1/resourceclaims"
	teamClaims = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/"
	slicesPath = "/apis/resource.k8s.io/v1/resourceslices"
	rulesPath  = "/apis/resource.k8s.io/v1/devicetaintrules"
	proxyPath  = "/api/v1/namespaces/accelmux/pods/http:agent-1:8417/proxy/v1/"
)

// testCluster has the node n1 with an agent, whose device d0 the pod train of the namespace team has and whose d1 is unhealthy;
// n2 with a device of another driver that a claim has, and that somebody's DeviceTaintRule is for; and n3 with nothing.
func testCluster() *apiServer {
	agent := object("v1", "Pod", map[string]any{
		"metadata": map[string]any{"name": "agent-1", "namespace": "accelmux", "labels": map[string]any{"app.kubernetes.io/name": "accelmux"}},
		"spec": map[string]any{"nodeName": "n1", "containers": []any{map[string]any{
			"name": "accelmux", "ports": []any{map[string]any{"name": "metrics", "containerPort": 8417}},
		}}},
		"status": map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
	})
	train := object("v1", "Pod", map[string]any{
		"metadata": meta("team", "train"), "spec": map[string]any{"nodeName": "n1", "containers": []any{map[string]any{
			"name": "main", "resources": map[string]any{"limits": map[string]any{"ex.com/gpu": "1"}},
		}}}, "status": map[string]any{"phase": "Running"},
	})
	big := object("v1", "Pod", map[string]any{
		"metadata": meta("team", "big"), "spec": map[string]any{
			"resourceClaims": []any{map[string]any{"name": "named", "resourceClaimName": "gone"}},
			"containers":     []any{map[string]any{"name": "main", "resources": map[string]any{"limits": map[string]any{"ex.com/gpu": "2", "ex.com/claimed": "1", "cpu": "1"}}}},
			"initContainers": []any{map[string]any{"name": "first", "resources": map[string]any{"limits": map[string]any{"ex.com/none": "1"}}}},
		}, "status": map[string]any{"phase": "Pending", "conditions": []any{map[string]any{"type": "PodScheduled", "status": "False", "message": "Insufficient ex.com/gpu"}}, "resourceClaimStatuses": []any{
			map[string]any{"name": "made", "resourceClaimName": "model"},
		}, "extendedResourceClaimStatus": map[string]any{"resourceClaimName": "extended"}},
	})
	node := func(name string, capacity, allocatable string) map[string]any {
		return object("v1", "Node", map[string]any{"metadata": meta("", name), "status": map[string]any{
			"capacity": map[string]any{"ex.com/gpu": capacity}, "allocatable": map[string]any{"ex.com/gpu": allocatable},
		}})
	}
	holder := []listing.Holder{{Resource: "ex.com/gpu", Unit: "d0", PodHash: listing.Hash("pod", "team", "train")}}
	slice := func(node, driver string, generation int, device map[string]any) map[string]any {
		return object("resource.k8s.io/v1", "ResourceSlice", map[string]any{"metadata": meta("", node+driver), "spec": map[string]any{
			"driver": driver, "nodeName": node, "pool": map[string]any{"name": node, "generation": generation, "resourceSliceCount": 1}, "devices": []any{device},
		}})
	}
	rule := func(name string, selector map[string]any) map[string]any {
		effect := map[string]string{"informs": "None", "evicts": "NoExecute"}[name]
		return object("resource.k8s.io/v1", "DeviceTaintRule", map[string]any{"metadata": meta("", name), "spec": map[string]any{
			"deviceSelector": selector, "taint": map[string]any{"key": "example.com/" + name, "effect": cmp.Or(effect, "NoSchedule")},
		}})
	}
	model := object("resource.k8s.io/v1", "ResourceClaim", map[string]any{
		"metadata": meta("team", "model"), "status": map[string]any{
			"reservedFor": []any{map[string]any{"resource": "pods", "name": "serve", "uid": "1"}},
			"allocation":  map[string]any{"devices": map[string]any{"results": []any{map[string]any{"request": "r", "driver": "gpu.other.com", "pool": "n2", "device": "gpu-0"}}}},
		},
	})
	healthy := true
	return &apiServer{denied: map[string]int{}, objects: map[string]any{
		podsPath:                             listOf("v1", "Pod", agent, train, big),
		"/api/v1/namespaces/team/pods":       listOf("v1", "Pod", train, big),
		"/api/v1/namespaces/team/pods/big":   big,
		"/api/v1/namespaces/team/pods/train": train,
		"/api/v1/namespaces/team/events":     listOf("v1", "Event"),
		"/api/v1/nodes":                      listOf("v1", "Node", node("n1", "2", "1"), node("n2", "0", "0"), node("n3", "0", "0")),
		"/api/v1/nodes/n1":                   node("n1", "2", "1"),
		"/api/v1/nodes/n2":                   node("n2", "0", "0"),
		"/api/v1/nodes/n3":                   node("n3", "0", "0"),
		claimsPath:                           listOf("resource.k8s.io/v1", "ResourceClaim", model),
		teamClaims + "model":                 model,
		teamClaims + "extended":              object("resource.k8s.io/v1", "ResourceClaim", map[string]any{"metadata": meta("team", "extended")}),
		slicesPath: listOf("resource.k8s.io/v1", "ResourceSlice",
			slice("n1", "nvidia.accelmux.io", 1, map[string]any{"name": "d0", "attributes": map[string]any{"accelmux.io/id": map[string]any{"string": "d0"}}}),
			slice("n2", "gpu.other.com", 1, map[string]any{"name": "old"}),
			slice("n2", "gpu.other.com", 2, map[string]any{
				"name": "gpu-0", "attributes": map[string]any{"productName": map[string]any{"string": "X1"}},
				"taints": []any{map[string]any{"key": "other.com/unhealthy", "value": "hot", "effect": "NoSchedule"}},
			})),
		"/apis/resource.k8s.io/v1/deviceclasses": listOf("resource.k8s.io/v1", "DeviceClass",
			object("resource.k8s.io/v1", "DeviceClass", map[string]any{"metadata": meta("", "claimed.ex.com"), "spec": map[string]any{"extendedResourceName": "ex.com/claimed"}})),
		rulesPath: listOf("resource.k8s.io/v1", "DeviceTaintRule",
			rule("of-another-pool", map[string]any{"driver": "gpu.other.com", "pool": "n1"}), rule("informs", map[string]any{"driver": "gpu.other.com"}),
			rule("evicts", map[string]any{"driver": "gpu.other.com", "device": "gpu-0"})),
		proxyPath + "devices": []listing.Device{
			{Backend: "nvidia", ID: "d0", Class: "gpu", Resource: "ex.com/gpu", Healthy: true, Holders: holder},
			{Backend: "nvidia", ID: "d1", Class: "gpu", Resource: "ex.com/gpu", Faults: []listing.Fault{{Code: "ecc", Message: "2 errors", Recovery: "reset"}}},
		},
		proxyPath + "telemetry": listing.Telemetry{Devices: []listing.Measured{
			{Backend: "nvidia", ID: "d0", Healthy: &healthy, Holders: holder, Values: []listing.Value{{Name: "utilization_ratio", Value: 0.1}}},
			{Backend: "nvidia", ID: "d1", Healthy: new(bool), Values: []listing.Value{{Name: "utilization_ratio", Value: 0.9}}},
		}},
		"/apis/authentication.k8s.io/v1/selfsubjectreviews": object("authentication.k8s.io/v1", "SelfSubjectReview", map[string]any{
			"status": map[string]any{"userInfo": map[string]any{"username": "alice"}},
		}),
	}}
}

const table = `NODE   DEVICE                CLASS   MODEL   RESOURCE     HEALTH                                   HELD BY
n1     nvidia/d0             gpu     -       ex.com/gpu   healthy                                  team/train
n1     nvidia/d1             gpu     -       ex.com/gpu   unhealthy: ecc (needs reset)             -
n2     gpu.other.com/gpu-0   -       X1      -            unhealthy: hot (NoSchedule) and 1 more   claim team/model (serve)
`

// Verifies what is shown of all nodes: the agent's devices with their pods' names, those of another DRA driver with
// their claims, and no device twice.
func TestCommands(t *testing.T) {
	for name, c := range map[string]struct{ args, want string }{
		"devices":   {"devices", table},
		"unhealthy": {"devices --unhealthy --resource=ex.com/gpu --no-headers", "n1    nvidia/d1   gpu   -     ex.com/gpu   unhealthy: ecc (needs reset)   -\n"},
		"one node":  {"devices --node=n1 -o=name", "n1/nvidia/d0\nn1/nvidia/d1\n"},
		"wide":      {"devices --node=n1 --unhealthy --no-headers -o=wide", "n1    nvidia/d1   gpu   -     ex.com/gpu   unhealthy: ecc (needs reset)   -     -     -     -     2 errors\n"},
		"jsonpath":  {"devices -o=jsonpath={.items[?(@.healthy==false)].id}", "d1 gpu-0"},
		"no fault":  {"devices --node=n1 -o=jsonpath={.items[0].faults[0].code}{.items[1].faults[0].code}", "ecc"},
		"pods": {"pods", "NAMESPACE   POD     NODE   DEVICES               UNHEALTHY\n" +
			"team        serve   n2     gpu.other.com/gpu-0   gpu-0 is unhealthy: hot (NoSchedule) and 1 more\nteam        train   n1     nvidia/d0             -\n"},
		"top": {"top --sort-by=load", "NODE   DEVICE      HEALTH      LOAD   MEMORY   TEMPERATURE   POWER   HELD BY\n" +
			"n1     nvidia/d1   unhealthy   90%    -        -             -       -\nn1     nvidia/d0   healthy     10%    -        -             -       team/train\n"},
		"why it waits": {"why big", `pod team/big is Pending on no node yet
the scheduler: Insufficient ex.com/gpu
it asks for 1 ex.com/claimed:
  the DeviceClass claimed.ex.com serves it by claims on nodes that have none
it asks for 2 ex.com/gpu:
  node n1 has 2, 1 healthy, 0 free
    nvidia/d1 is unhealthy: ecc (needs reset)
      2 errors
it asks for 1 ex.com/none:
  no node has it: is the name right, and does an agent or device plugin serve it?
claim gone does not exist
claim model has device gpu-0 of driver gpu.other.com, pool n2
claim extended is not allocated: no node's slices have what it asks for, or the scheduler has not tried yet
`},
		"why it has":     {"why pod/train", "pod team/train is Running on n1\nit has:\n  nvidia/d0, healthy\n"},
		"of a namespace": {"why team/train --namespace=other", "pod team/train is Running on n1\nit has:\n  nvidia/d0, healthy\n"},
	} {
		got, stderr, err := testCluster().run(t, strings.Fields(c.args)...)
		if err != nil || stderr != "" || got != c.want {
			t.Errorf("%s: %v, %s\nprinted\n%s\nwant\n%s", name, err, stderr, got, c.want)
		}
	}
}

// Verifies that an agent that does not answer is an error with its node and what to do, and that the rest is shown:
// of its node what the slices have.
func TestAgentIsSilent(t *testing.T) {
	cluster := testCluster()
	for code, want := range map[int]string{http.StatusServiceUnavailable: "a NetworkPolicy must let the API server in", http.StatusForbidden: "it needs the verb get on pods/proxy"} {
		cluster.denied[proxyPath+"devices"] = code
		got, stderr, err := cluster.run(t, "devices", "-o=name")
		if !errors.Is(err, errReported) || !strings.HasPrefix(stderr, "node n1: ") || !strings.Contains(stderr, want) || got != "n1/nvidia.accelmux.io/d0\nn2/gpu.other.com/gpu-0\n" {
			t.Errorf("%v, %s\nprinted\n%s", err, stderr, got)
		}
	}
}

// Verifies that who may list pods of one namespace only sees the names of these.
func TestNamesOfOthers(t *testing.T) {
	cluster := testCluster()
	others := cluster.objects["/api/v1/namespaces/team/pods"].(map[string]any)
	others["items"] = []any{}
	cluster.objects["/api/v1/namespaces/accelmux/pods"] = cluster.objects[podsPath]
	cluster.denied[podsPath] = http.StatusForbidden
	got, stderr, err := cluster.run(t, "devices", "--agent-namespace=accelmux", "--node=n1", "--no-headers")
	if err != nil || !strings.Contains(got, "a pod (name hidden)") || strings.Contains(got, "train") {
		t.Errorf("%v, %s\nprinted\n%s", err, stderr, got)
	}
	if _, _, err := cluster.run(t, "devices"); err == nil || !strings.Contains(err.Error(), "--agent-namespace") {
		t.Error(err)
	}
}

// Verifies that cordon and uncordon change the Node's annotation and nothing else, with the user's name, and refuse a
// device that there is not.
func TestCordon(t *testing.T) {
	cluster := testCluster()
	annotation := func() string {
		text, err := json.Marshal(cluster.objects["/api/v1/nodes/n1"])
		var node struct {
			Metadata struct{ Annotations map[string]string }
			Status   map[string]any
		}
		if err = errors.Join(err, json.Unmarshal(text, &node)); err != nil || node.Status["capacity"].(map[string]any)["ex.com/gpu"] != "2" {
			t.Fatalf("%v: the Node is %s", err, text)
		}
		return node.Metadata.Annotations[cordon.Annotation]
	}
	if out, _, err := cluster.run(t, "cordon", "n1", "d1", "--reason=fan"); err != nil || out != "device nvidia/d1 of node n1 cordoned\n" {
		t.Fatal(out, err)
	}
	entries, err := cordon.Parse(annotation())
	if err != nil || len(entries) != 1 || entries[0].Device != "nvidia/d1" || entries[0].String() != "cordoned by alice: fan" || entries[0].Since.IsZero() {
		t.Errorf("%v, %+v", err, entries)
	}
	for wrong, want := range map[string]string{
		"cordon n1 d2": "no device \"d2\" is on node n1; `kubectl accelmux devices --node n1` lists its devices", "cordon n3 gpu-0": "no agent of accelmux runs on node n3",
		"cordon n4 gpu-0": "nodes/n4", "uncordon n1 d0": `no device "d0" is cordoned on node n1`, "doctor n4": "", "topology n4": "nodes/n4",
	} {
		if _, stderr, err := cluster.run(t, strings.Fields(wrong)...); err == nil || !strings.Contains(err.Error(), want) || want == "" && !strings.Contains(stderr, "nodes/n4") {
			t.Errorf("%s: %v, %s; want %q", wrong, err, stderr, want)
		}
	}
	if _, _, err := cluster.run(t, "uncordon", "n1", "d1"); err != nil || annotation() != "" {
		t.Errorf("%v, the annotation is %s", err, annotation())
	}
}

// Verifies that a device of another DRA driver is cordoned by a DeviceTaintRule, which devices shows with who did it and why,
// and that uncordon deletes that one.
func TestCordonOfAnotherDriver(t *testing.T) {
	cluster := testCluster()
	for range 2 { // the second replaces the first
		if out, _, err := cluster.run(t, "cordon", "n2", "gpu-0", "--reason=fan"); err != nil || out != "device gpu.other.com/gpu-0 of node n2 cordoned\n" {
			t.Fatal(out, err)
		}
	}
	out, _, err := cluster.run(t, "devices", "--node=n2", "-o=jsonpath={.items[0].faults[2].code}: {.items[0].faults[2].message}, {.items[0].faults[*].recovery}")
	if err != nil || out != "cordoned: cordoned by alice: fan, NoSchedule NoExecute NoSchedule" {
		t.Errorf("%v, devices printed %s", err, out)
	}
	if _, _, err := cluster.run(t, "uncordon", "n1", "gpu-0"); err == nil {
		t.Error("uncordoned a device of another node")
	}
	if _, _, err := cluster.run(t, "uncordon", "n2", "gpu-0"); err != nil {
		t.Error(err)
	}
	if left := cluster.objects[rulesPath].(map[string]any)["items"].([]any); len(left) != 3 {
		t.Errorf("the rules are %v, want the three that cordon did not make", left)
	}
	delete(cluster.objects, rulesPath)
	if _, _, err := cluster.run(t, "cordon", "n2", "gpu-0"); err == nil || !strings.Contains(err.Error(), "1.37") {
		t.Errorf("without DeviceTaintRules: %v", err)
	}
}

// Verifies that a wrong use is refused before anything is asked.
func TestWrongUse(t *testing.T) {
	argumentstest.Check(t, newRootCommand)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	t.Chdir(t.TempDir())
	if err := errors.Join(os.WriteFile("node.yaml", []byte("kind: NodeConfig\n"), 0o600), os.WriteFile("bad.yaml", []byte("kind: Config\nclusters: 5\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"devices -o=xml --kubeconfig=node.yaml": "unknown output format \"xml\": use wide, json, yaml, name or jsonpath=TEMPLATE",
		"doctor -o=wide":                        "-o wide is not possible: use json, yaml or jsonpath=TEMPLATE",
		"devices --kubeconfig=node.yaml":        "read the kubeconfig: it is a NodeConfig, not a kubeconfig, which has kind: Config",
		"pods --kubeconfig=bad.yaml":            "read the kubeconfig: the field clusters has the wrong type: number",
		"top --kubeconfig=missing":              "--kubeconfig (kubeconfig file): missing does not exist; `kubectl accelmux top --help` lists the flags",
		"devices":                               "read the kubeconfig: there is none: name the file with --kubeconfig, or in the variable KUBECONFIG",
		"topology n1 -o inventory":              "unknown flag: -o; `kubectl accelmux topology --help` lists the flags; those of accelmux topology go after --, as in `kubectl accelmux topology NODE -- -o tree`",
		"devices --node=n1 -l=a=b":              "--selector has no effect beside --node; `kubectl accelmux devices --help` lists the flags",
	} {
		command := newRootCommand()
		command.SetArgs(strings.Fields(args))
		if err := command.ExecuteContext(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", args, err, want)
		}
	}
	for args, want := range map[string]string{
		"devices -o=tbl":        "unknown output format",
		"devices -w -o=json":    "-w prints a table",
		"devices -o=jsonpath={": "-o jsonpath={: unclosed action",
		"top --sort-by=lod":     `did you mean "load"?`,
		"why":                   "an argument is missing: `kubectl accelmux why",
		"cordon n1 d1 d2":       `unexpected argument "d2"`,
		"device":                "unknown command",
		"cordon --raeson=x":     `did you mean "--reason"?`,
	} {
		if _, _, err := new(apiServer).run(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// Verifies that -w prints the lines that changed, or the whole table where all change.
func TestWatch(t *testing.T) {
	for want, whole := range map[string]bool{
		"A     B\nx     1\ny     1\nx     2\n":                     false,
		"A     B\nx     1\ny     1\n\nA     B\nx     2\ny     1\n": true,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var out bytes.Buffer
			cmd := new(cobra.Command)
			cmd.SetContext(ctx)
			cmd.SetOut(&out)
			reads := 0
			err := (&output{watch: true, whole: whole}).run(cmd, func() (list, error) {
				if reads++; reads == 2 {
					cancel()
				}
				return list{columns: []metav1.TableColumnDefinition{column("A", 0), column("B", 0)}, rows: [][]any{{"x", fmt.Sprint(reads)}, {"y", "1"}}}, nil
			})
			if got := untrailed(out.String()); err != nil || got != want {
				t.Errorf("%v, printed\n%s\nwant\n%s", err, got, want)
			}
		})
	}
}
