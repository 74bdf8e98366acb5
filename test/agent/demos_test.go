package agent

import (
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	oci "github.com/opencontainers/runtime-spec/specs-go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	"sigs.k8s.io/yaml"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/dra/allocator"
	"github.com/accelmux/accelmux/core/kubeapi"
	"github.com/accelmux/accelmux/test/apiserver"
)

// The drivers of kubernetes-sigs/dra-example-driver, as of its commit b5862b8c3d96 (demo/examples, internal/profiles).
const (
	gpuDriver = "gpu.dra-example-driver.sigs.k8s.io"
	netDriver = "net.dra-example-driver.sigs.k8s.io"
)

// exampleDemo is one of that repository's, by what its claims ask for and its containers must get.
type exampleDemo struct {
	// settings take the place of what they name in the settings of the backend gpu of the example.
	settings string
	// claims are the specs of its claims, all to be allocated together.
	claims []string
	// want are the variables of a container with a request, "claim/request": each line a variable, in order.
	want map[string]string
	// waits: pods with its devices are bound when they are prepared.
	waits bool
}

const (
	oneGPU = "requests: [{name: gpu, exactly: {deviceClassName: " + gpuDriver + "}}]"
	// partitions are those of gpuPartitions=4 there, whole GPUs included.
	partitions = `{shares: null, partitions: {slices: 4, profiles: {partition: 1, whole: 4}}, edits: {env: {"GPU_DEVICE_{{.Index}}_{{.EnvName}}": "{{.ID}}", DRA_ADMIN_ACCESS: "false"}}, prepare: null}`
	// sharedPartitions are those of gpuAllowMultipleAllocations=true beside it.
	sharedPartitions = `{partitions: {count: 4}, shares: {memory: {default: 20Gi, min: 1Gi, step: 1Gi}, compute: 25}}`
)

func gpuConfig(requests, sharing string) string {
	return "{requests: [" + requests + "], opaque: {driver: " + gpuDriver + ", parameters: {apiVersion: gpu.resource.dra-example-driver.sigs.k8s.io/v1alpha1, kind: GpuConfig, sharing: " + sharing + "}}}"
}

// gpuEnv are the variables of a container with GPU n, whole unless memory and compute are given.
func gpuEnv(n int, sharing string, amounts ...int64) string {
	memory, compute := int64(80<<30), int64(100)
	if len(amounts) == 2 {
		memory, compute = amounts[0], amounts[1]
	}
	strategy, rest, _ := strings.Cut(sharing, " ")
	lines := []string{
		"DRA_ADMIN_ACCESS=false", fmt.Sprintf("GPU_DEVICE_%d=gpu-%[1]d", n), fmt.Sprintf("GPU_DEVICE_%d_MEMORY=%d", n, memory),
		fmt.Sprintf("GPU_DEVICE_%d_COMPUTE=%d", n, compute), fmt.Sprintf("GPU_DEVICE_%d_SHARING_STRATEGY=%s", n, strategy), fmt.Sprintf("GPU_DEVICE_%d_%s", n, rest),
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

const (
	byDefault = "TimeSlicing TIMESLICE_INTERVAL=Default"
	long      = "TimeSlicing TIMESLICE_INTERVAL=Long"
	short     = "TimeSlicing TIMESLICE_INTERVAL=Short"
)

// exampleDemos are all with a driver of their own. Those on pods that share a claim, on init containers, pod groups, kubelet's
// pod-resources, taints by rules and health differ from basic-resourceclaimtemplate in what is no driver's.
var exampleDemos = map[string]exampleDemo{
	"basic-resourceclaimtemplate": {
		claims: []string{oneGPU, oneGPU}, want: map[string]string{"0/gpu": gpuEnv(0, byDefault), "1/gpu": gpuEnv(1, byDefault)},
	},
	"basic-multiple-requests": {
		claims: []string{"requests: [{name: gpu-1, exactly: {deviceClassName: " + gpuDriver + "}}, {name: gpu-2, exactly: {deviceClassName: " + gpuDriver + "}}]"},
		want:   map[string]string{"0/gpu-1": gpuEnv(0, byDefault), "0/gpu-2": gpuEnv(1, byDefault)},
	},
	"basic-resourceclaim-opaque-config": {
		claims: []string{"requests: [{name: ts-gpu, exactly: {deviceClassName: " + gpuDriver + "}}, {name: sp-gpu, exactly: {deviceClassName: " + gpuDriver + "}}]\n" +
			"config: [" + gpuConfig("ts-gpu", "{strategy: TimeSlicing, timeSlicingConfig: {interval: Long}}") + ", " +
			gpuConfig("sp-gpu", "{strategy: SpacePartitioning, spacePartitioningConfig: {partitionCount: 10}}") + "]"},
		want: map[string]string{"0/ts-gpu": gpuEnv(0, long), "0/sp-gpu": gpuEnv(1, "SpacePartitioning PARTITION_COUNT=10")},
	},
	"admin-access": {
		claims: []string{"requests: [{name: admin-gpu, exactly: {deviceClassName: " + gpuDriver + ", allocationMode: All, adminAccess: true}}]"},
		want: map[string]string{"0/admin-gpu": "DRA_ADMIN_ACCESS=true\nGPU_DEVICE_0=gpu-0\nGPU_DEVICE_1=gpu-1\nGPU_DEVICE_2=gpu-2\nGPU_DEVICE_3=gpu-3\n" +
			"GPU_DEVICE_4=gpu-4\nGPU_DEVICE_5=gpu-5\nGPU_DEVICE_6=gpu-6\nGPU_DEVICE_7=gpu-7"},
	},
	"cel-selector": {
		claims: []string{`requests: [{name: gpu, exactly: {deviceClassName: ` + gpuDriver + `, selectors: [{cel: {expression: "device.attributes['` + gpuDriver + `'].model == 'LATEST-GPU-MODEL'"}}, ` +
			`{cel: {expression: "device.capacity['` + gpuDriver + `'].memory.compareTo(quantity('4Gi')) >= 0"}}]}}]`},
		want: map[string]string{"0/gpu": gpuEnv(0, byDefault)},
	},
	"prioritized-alternatives": {
		claims: []string{
			alternatives("model == 'BLEEDING-EDGE-GPU'", "memory"), alternatives("model == 'LATEST-GPU-MODEL'", ""),
		},
		want: map[string]string{"0/gpu/older-gpu": gpuEnv(0, byDefault), "1/gpu/latest-gpu": gpuEnv(1, byDefault)},
	},
	"subrequest-config-scoping": {
		claims: []string{
			scoped("model == 'BLEEDING-EDGE-GPU'", gpuConfig("gpu", "{strategy: TimeSlicing, timeSlicingConfig: {interval: Long}}")),
			scoped("model == 'LATEST-GPU-MODEL'", gpuConfig(`"gpu/latest-gpu"`, "{strategy: TimeSlicing, timeSlicingConfig: {interval: Short}}"),
				gpuConfig(`"gpu/older-gpu"`, "{strategy: TimeSlicing, timeSlicingConfig: {interval: Medium}}")),
			scoped("model == 'LATEST-GPU-MODEL'", gpuConfig(`"gpu/latest-gpu"`, "{strategy: TimeSlicing, timeSlicingConfig: {interval: Short}}"),
				gpuConfig("gpu", "{strategy: TimeSlicing, timeSlicingConfig: {interval: Long}}")),
		},
		want: map[string]string{
			"0/gpu/older-gpu": gpuEnv(0, long), "0/extra": gpuEnv(1, byDefault), "1/gpu/latest-gpu": gpuEnv(2, short), "1/extra": gpuEnv(3, byDefault),
			"2/gpu/latest-gpu": gpuEnv(4, long), "2/extra": gpuEnv(5, byDefault),
		},
	},
	"gpu-allow-multiple-allocations": {
		claims: []string{amounts("memory: 16Gi, compute: 20"), amounts("memory: 16Gi, compute: 20")},
		want:   map[string]string{"0/gpu": gpuEnv(0, byDefault, 16<<30, 20), "1/gpu": gpuEnv(0, byDefault, 16<<30, 20)},
	},
	"partitionable-devices": {
		settings: partitions,
		claims: []string{
			"requests: [{name: gpu-partition, exactly: {deviceClassName: " + gpuDriver + ", count: 2}}]",
			"requests: [{name: gpu, exactly: {deviceClassName: " + gpuDriver + ", selectors: [{cel: {expression: \"device.attributes['" + gpuDriver + "'].profile == 'whole'\"}}]}}]",
		},
		want: map[string]string{
			"0/gpu-partition": "DRA_ADMIN_ACCESS=false\nGPU_DEVICE_0_GPU_0_PARTITION_2=gpu-0-partition-2\nGPU_DEVICE_0_GPU_0_PARTITION_3=gpu-0-partition-3",
			"1/gpu":           "DRA_ADMIN_ACCESS=false\nGPU_DEVICE_1_GPU_1_WHOLE_0=gpu-1-whole-0", // the first GPU has partitions
		},
	},
	"gpu-allow-multiple-allocations-partitionable": {
		settings: sharedPartitions,
		claims:   []string{amounts("memory: 8Gi, compute: 10"), amounts("memory: 8Gi, compute: 10")},
		want: map[string]string{
			"0/gpu": strings.ReplaceAll(gpuEnv(0, byDefault, 8<<30, 10), "=gpu-0", "=gpu-0-p0"), "1/gpu": strings.ReplaceAll(gpuEnv(0, byDefault, 8<<30, 10), "=gpu-0", "=gpu-0-p0"),
		},
	},
	"binding-conditions": {settings: "{prepare: {slow: true}}", waits: true, want: map[string]string{}},
	"net-consumable-capacity": {
		claims: []string{
			bandwidth("10G", "5G"),
			bandwidth("5G", "5G") + "\nconfig: [{opaque: {driver: " + netDriver + ", parameters: {apiVersion: net.resource.dra-example-driver.sigs.k8s.io/v1alpha1, kind: NetConfig, bwBurst: {ingressBurst: 8000, egressBurst: 0}}}}]",
		},
		want: map[string]string{
			"0/nic": "NET_DEVICE_0=nic-0\nNET_DEVICE_0_EGRESS_RATE=5000000000\nNET_DEVICE_0_INGRESS_RATE=10000000000",
			"1/nic": "NET_DEVICE_0=nic-0\nNET_DEVICE_0_EGRESS_RATE=5000000000\nNET_DEVICE_0_INGRESS_BURST=8000\nNET_DEVICE_0_INGRESS_RATE=5000000000",
		},
	},
}

// alternatives is a request for the GPU that an expression selects, or one with 1 TiB if huge is not "", or any.
func alternatives(first, huge string) string {
	name := map[bool]string{true: "bleeding-edge-gpu", false: "latest-gpu"}[huge != ""]
	text := "requests: [{name: gpu, firstAvailable: [{name: " + name + ", deviceClassName: " + gpuDriver + ", selectors: [{cel: {expression: \"device.attributes['" + gpuDriver + "']." + first + "\"}}]}"
	if huge != "" {
		text += ", {name: huge-gpu, deviceClassName: " + gpuDriver + ", selectors: [{cel: {expression: \"device.capacity['" + gpuDriver + "']." + huge + ".compareTo(quantity('1Ti')) >= 0\"}}]}"
	}
	return text + ", {name: older-gpu, deviceClassName: " + gpuDriver + "}]}]"
}

func scoped(first string, configs ...string) string {
	text := strings.TrimSuffix(alternatives(first, ""), "]") + ", {name: extra, exactly: {deviceClassName: " + gpuDriver + "}}]"
	return text + "\nconfig: [" + strings.Join(configs, ", ") + "]"
}

func amounts(requests string) string {
	return "requests: [{name: gpu, exactly: {deviceClassName: " + gpuDriver + ", capacity: {requests: {" + requests + "}}}}]"
}

func bandwidth(in, out string) string {
	return "requests: [{name: nic, exactly: {deviceClassName: " + netDriver + ", capacity: {requests: {ingressBandwidth: " + in + ", egressBandwidth: " + out + "}}}}]"
}

// Verifies that with the chart's example the mock backend gives the containers of the demos of
// kubernetes-sigs/dra-example-driver what that driver gives them, by the scheduler's own allocator.
func TestDemosOfTheExampleDriver(t *testing.T) {
	t.Parallel()
	bySettings := map[string][]string{}
	for name, d := range exampleDemos {
		bySettings[d.settings] = append(bySettings[d.settings], name)
	}
	for settings, names := range bySettings {
		t.Run(slices.Min(names), func(t *testing.T) {
			t.Parallel()
			n := startExample(t, settings)
			for _, name := range names {
				n.play(name, exampleDemos[name])
			}
		})
	}
}

// exampleNode is a node with the example, and an API server.
type exampleNode struct {
	*node
	server *apiserver.Server
	client kubernetes.Interface
}

func startExample(t *testing.T, settings string) *exampleNode {
	t.Helper()
	n := &exampleNode{node: newNode(t)}
	n.startKubelet()
	n.configure(exampleConfig(t, settings))
	options := n.options()
	n.server, n.client = n.connect(&options)
	options.Profile = "default"
	n.startAgentWith(options)
	return n
}

// connect gives the agent an API server with its Node.
func (n *node) connect(options *agent.Options) (*apiserver.Server, kubernetes.Interface) {
	n.Helper()
	server := apiserver.New(apiserver.Nodes(), apiserver.Events(), apiserver.Pods(), apiserver.Claims(), apiserver.Slices())
	listening := httptest.NewServer(server)
	n.Cleanup(listening.Close)
	client, err := server.Client()
	if err == nil {
		_, err = client.CoreV1().Nodes().Create(n.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, metav1.CreateOptions{})
	}
	if err == nil {
		options.Cluster, err = kubeapi.Connect(&rest.Config{Host: listening.URL, QPS: -1})
	}
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(options.Cluster.Close)
	n.Cleanup(n.stopAgent) // before the server goes
	return server, client
}

// exampleConfig is the node configuration of the chart's example, with other settings of the backend gpu.
func exampleConfig(t *testing.T, settings string) string {
	t.Helper()
	text, err := os.ReadFile("../../deployments/helm/accelmux/examples/dra-example-driver.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct{ Config string }
	var config struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Profiles   []map[string]any `json:"profiles"`
	}
	var other map[string]any
	for from, into := range map[string]any{string(text): &values, settings: &other} {
		if err := yaml.Unmarshal([]byte(from), into); err != nil {
			t.Fatal(err)
		}
	}
	if err := yaml.UnmarshalStrict([]byte(values.Config), &config); err != nil {
		t.Fatal(err)
	}
	of := config.Profiles[0]["backends"].([]any)[0].(map[string]any)["settings"].(map[string]any)
	for name, value := range other {
		if of[name] = value; value == nil {
			delete(of, name)
		}
	}
	out, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// published are the slices of both drivers, when their pools are complete and the devices have binding conditions or not.
func (n *exampleNode) published(waits bool) (all []*resourceapi.ResourceSlice) {
	n.Helper()
	n.eventually(fmt.Sprintf("both drivers have published, with binding conditions: %v", waits), func() bool {
		all = nil
		parts, conditions := map[string]int64{}, 0
		objects, _ := n.server.Objects(apiserver.Slices())
		for _, o := range objects {
			slice, ok := o.(*resourceapi.ResourceSlice)
			if !ok {
				return false
			}
			all = append(all, slice)
			if parts[slice.Spec.Driver] == 0 {
				parts[slice.Spec.Driver] = slice.Spec.Pool.ResourceSliceCount + 1
			}
			parts[slice.Spec.Driver]--
			for _, d := range slice.Spec.Devices {
				conditions += len(d.BindingConditions)
			}
		}
		return parts[gpuDriver] == 1 && parts[netDriver] == 1 && (conditions > 0) == waits
	})
	return all
}

// play allocates the claims of a demo, has them prepared, compares what containers get, and ends them.
func (n *exampleNode) play(name string, d exampleDemo) {
	n.Helper()
	var pending []allocator.Claim
	for i, spec := range d.claims {
		objects, err := allocator.Read(strings.NewReader(fmt.Sprintf("apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: \"%d\"}\nspec: {devices: %s}\n", i, inline(spec))))
		if err != nil {
			n.Fatalf("%s: %v", name, err)
		}
		pending = append(pending, objects.Claims...)
	}
	scheduler := allocator.Node{Name: "node-1", Slices: n.published(d.waits), Classes: map[string]*resourceapi.DeviceClass{gpuDriver: class("gpu"), netDriver: class("net")}}
	results, err := scheduler.AllocateAll(n.soon(), pending)
	if err != nil || len(results) != len(pending) {
		n.Fatalf("%s: %d of %d claims are allocated: %v", name, len(results), len(pending), err)
	}
	got := map[string]string{}
	for i, result := range results {
		maps.Copy(got, n.containers(fmt.Sprintf("%s-%d", name, i), fmt.Sprint(i), result))
	}
	if diff := cmp.Diff(d.want, got); diff != "" {
		n.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// inline makes a flow mapping of the lines of a claim.
func inline(spec string) string { return "{" + strings.ReplaceAll(spec, "\n", ", ") + "}" }

// class is that of the chart for a resource.
func class(resource string) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: `device.attributes["accelmux.io"].?resource.orValue("") == "dra-example-driver.sigs.k8s.io/` + resource + `"`,
	}}}}}
}

// containers has an allocated claim prepared, and returns the variables of a container with each of its requests.
func (n *exampleNode) containers(name, claim string, allocation resourceapi.AllocationResult) map[string]string {
	n.Helper()
	claims := n.client.ResourceV1().ResourceClaims("demo")
	c, err := claims.Create(n.soon(), &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}, metav1.CreateOptions{})
	if err == nil {
		c.Status = resourceapi.ResourceClaimStatus{Allocation: &allocation, ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: "pod"}}}
		c, err = claims.UpdateStatus(n.soon(), c, metav1.UpdateOptions{})
	}
	if err != nil {
		n.Fatal(err)
	}
	driver := allocation.Devices.Results[0].Driver
	conn, err := grpc.NewClient("unix://"+n.path("kubelet", "plugins", driver, "dra.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // of a test
	client, asked := drapb.NewDRAPluginClient(conn), []*drapb.Claim{{Namespace: "demo", Name: name, Uid: string(c.UID)}}
	prepared, err := client.NodePrepareResources(n.soon(), &drapb.NodePrepareResourcesRequest{Claims: asked})
	if err != nil || prepared.GetClaims()[string(c.UID)].GetError() != "" {
		n.Fatalf("%s: %v %s", name, err, prepared.GetClaims()[string(c.UID)].GetError())
	}
	chosen := map[string]string{} // the alternative of a request
	for _, result := range allocation.Devices.Results {
		chosen[resourceclaim.BaseRequestRef(result.Request)] = result.Request
	}
	ids := map[string][]string{}
	for _, d := range prepared.GetClaims()[string(c.UID)].GetDevices() {
		for _, request := range d.GetRequestNames() {
			ids[claim+"/"+chosen[request]] = append(ids[claim+"/"+chosen[request]], d.GetCdiDeviceIds()...)
		}
	}
	env := map[string]string{}
	for request, devices := range ids {
		env[request] = n.injected(driver, devices)
	}
	n.unprepare(client, asked)
	return env
}

func (n *exampleNode) unprepare(client drapb.DRAPluginClient, asked []*drapb.Claim) {
	n.Helper()
	ended, err := client.NodeUnprepareResources(context.WithoutCancel(n.soon()), &drapb.NodeUnprepareResourcesRequest{Claims: asked})
	if err != nil || ended.GetClaims()[asked[0].GetUid()].GetError() != "" {
		n.Errorf("unprepare %s: %v %v", asked[0].GetName(), err, ended)
	}
}

// injected are the variables that a runtime sets of CDI devices, besides the mock's own, sorted. Those of the GPU
// driver come with a file of metadata.
func (n *exampleNode) injected(driver string, devices []string) string {
	n.Helper()
	cache, err := cdi.NewCache(cdi.WithSpecDirs(n.path("cdi")), cdi.WithAutoRefresh(false))
	if err != nil {
		n.Fatal(err)
	}
	spec := &oci.Spec{Process: &oci.Process{}}
	if unresolved, err := cache.InjectDevices(spec, devices...); err != nil || len(unresolved) > 0 {
		n.Fatalf("%v: %v %v", devices, unresolved, err)
	}
	metadata := slices.ContainsFunc(spec.Mounts, func(m oci.Mount) bool {
		return strings.HasPrefix(filepath.Clean(m.Destination), "/var/run/kubernetes.io/dra-device-attributes")
	})
	if metadata != (driver == gpuDriver) {
		n.Errorf("%s: metadata of %v is mounted: %v", driver, devices, metadata)
	}
	env := slices.DeleteFunc(spec.Process.Env, func(v string) bool { return strings.HasPrefix(v, "ACCELMUX_") })
	slices.Sort(env)
	return strings.Join(env, "\n")
}
