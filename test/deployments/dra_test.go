package deployments

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// nodeConfigOf returns values with a node configuration of these profiles.
func nodeConfigOf(t *testing.T, profiles string) []string {
	t.Helper()
	return with("-f", write(t, "config.yaml", "config: |\n  apiVersion: accelmux.io/v1alpha1\n  kind: NodeConfig\n  profiles: "+profiles))
}

const mockByClaims = `[{name: a, backends: [{name: mock}], resources: [{name: example.com/gpu, api: dra}]}]`

// all returns the objects of type T.
func all[T runtime.Object](objects []runtime.Object) (found []T) {
	for _, object := range objects {
		if match, ok := object.(T); ok {
			found = append(found, match)
		}
	}
	return found
}

// classes returns the rendered DeviceClasses by name, each as its expression and its extended
// resource name.
func classes(objects []runtime.Object) map[string]string {
	found := map[string]string{}
	for _, class := range all[*resourcev1.DeviceClass](objects) {
		if name := class.Spec.ExtendedResourceName; name != nil {
			found[class.Name] = *name + ": "
		}
		for _, selector := range class.Spec.Selectors {
			found[class.Name] += selector.CEL.Expression
		}
	}
	return found
}

// TestDeviceClasses verifies which classes a configuration gets: one for each resource with api: dra, by
// all drivers that serve it in any profile.
func TestDeviceClasses(t *testing.T) {
	selector := func(drivers, resource string) string {
		return `device.driver in [` + drivers + `] && device.attributes["accelmux.io"].?resource.orValue("") == "` + resource + `"`
	}
	mock := selector(`"mock.accelmux.io"`, "example.com/gpu")
	for name, c := range map[string]struct {
		profiles string
		args     []string
		want     map[string]string
	}{
		"no claims": {`[{name: a, backends: [{name: mock}], resources: [{name: example.com/gpu}, {name: example.com/b, api: devicePlugin}]}]`, nil, map[string]string{}},
		"one":       {mockByClaims, nil, map[string]string{"gpu.example.com": mock}},
		"a driver's own name": {`[{name: a, backends: [{name: nvidia, dra: {driver: gpu.nvidia.com}}], resources: [{name: nvidia.com/gpu, api: dra}]}]`, nil,
			map[string]string{"gpu.nvidia.com": selector(`"gpu.nvidia.com"`, "nvidia.com/gpu")}},
		"several of each": {`[
			{name: a, backends: [{name: z}, {name: b, dra: null}], resources: [{name: example.com/gpu, api: dra}, {name: example.com/MA_35, backend: b, api: dra}]},
			{name: b, backends: [{name: b}, {name: c, dra: {evict: true}}], resources: [{name: example.com/gpu, api: dra, backend: b}, {name: example.com/d}]}]`, nil,
			map[string]string{
				"gpu.example.com":   selector(`"b.accelmux.io","z.accelmux.io"`, "example.com/gpu"),
				"ma-35.example.com": selector(`"b.accelmux.io"`, "example.com/MA_35"),
			}},
		"names without a class": {`[{name: a, backends: [{name: mock}], resources: [{name: "example.com/mig-{profile}", api: dra}, {name: ` + strings.Repeat("a", 60) + `.com/gpu, api: dra}]}]`, nil,
			map[string]string{}},
		"extended names": {mockByClaims, []string{"--set", "deviceClasses.extendedResourceNames=true"}, map[string]string{"gpu.example.com": "example.com/gpu: " + mock}},
		"by hand": {mockByClaims, []string{"--set", "deviceClasses.create=false", "--set-json", `deviceClasses.extra={"mine": {"selectors": [{"cel": {"expression": "true"}}]}}`},
			map[string]string{"mine": "true"}},
		"additions": {mockByClaims, []string{"--set-json", `deviceClasses.extra={"gpu.example.com": {"extendedResourceName": "example.com/other"}}`},
			map[string]string{"gpu.example.com": "example.com/other: " + mock}},
		"a replacement": {mockByClaims, []string{"--set-json", `deviceClasses.extra={"gpu.example.com": {"selectors": [{"cel": {"expression": "true"}}]}}`},
			map[string]string{"gpu.example.com": "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := slices.Concat(nodeConfigOf(t, strings.ReplaceAll(c.profiles, "\t", "    ")), c.args)
			if diff := cmp.Diff(c.want, classes(render(t, args...))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestClassParameters verifies that a class can have parameters for the backend, also one that the
// chart makes.
func TestClassParameters(t *testing.T) {
	comment := read(t, chart+"/values.yaml")
	_, example, _ := strings.Cut(string(comment), "  #   gpu.example.com:\n")
	example, _, _ = strings.Cut(example, "  extra: {}")
	values := "deviceClasses:\n  extra:\n    gpu.example.com:\n" + strings.ReplaceAll(example, "  #  ", "   ")
	class := only[*resourcev1.DeviceClass](t, render(t, append(nodeConfigOf(t, mockByClaims), "-f", write(t, "values.yaml", values))...))
	if len(class.Spec.Selectors) != 1 || len(class.Spec.Config) != 1 || class.Spec.Config[0].Opaque.Driver != "mock.accelmux.io" ||
		!strings.Contains(string(class.Spec.Config[0].Opaque.Parameters.Raw), `"kind":"DeviceParameters"`) {
		t.Errorf("the class is %+v", class.Spec)
	}
}

// TestNotesAboutClasses verifies that helm's notes name the resources that got no class.
func TestNotesAboutClasses(t *testing.T) {
	const placeholders = `[{name: a, backends: [{name: nvidia}], resources: [{name: nvidia.com/gpu, api: dra}, {name: "nvidia.com/mig-{profile}", api: dra}]}]`
	out := must(t, helm, slices.Concat([]string{"install", "accelmux", chart, "--namespace", namespace, "--dry-run=client"}, nodeConfigOf(t, placeholders))...)
	if !strings.Contains(out, "There is no class for nvidia.com/mig-{profile}: ") || strings.Contains(out, "no class for nvidia.com/gpu") {
		t.Errorf("the notes are\n%s", out)
	}
}

// TestSelectors verifies that the expression of a class selects the devices of its resource, and
// fails for no device of another driver: that would keep pods from being scheduled.
func TestSelectors(t *testing.T) {
	class := only[*resourcev1.DeviceClass](t, render(t, nodeConfigOf(t, mockByClaims)...))
	compiled := dracel.GetCompiler(dracel.Features{}).CompileCELExpression(class.Spec.Selectors[0].CEL.Expression, dracel.Options{})
	if compiled.Error != nil {
		t.Fatal(compiled.Error)
	}
	device := func(driver string, attributes ...string) dracel.Device {
		d := dracel.Device{Driver: driver, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}}
		for i := 0; i < len(attributes); i += 2 {
			d.Attributes[resourcev1.QualifiedName(attributes[i])] = resourcev1.DeviceAttribute{StringValue: &attributes[i+1]}
		}
		return d
	}
	for name, c := range map[string]struct {
		device dracel.Device
		want   bool
	}{
		"its device":                   {device("mock.accelmux.io", "accelmux.io/resource", "example.com/gpu", "model", "M1"), true},
		"of another resource":          {device("mock.accelmux.io", "accelmux.io/resource", "example.com/big"), false},
		"of an older agent":            {device("mock.accelmux.io", "accelmux.io/id", "a"), false},
		"without attributes":           {device("mock.accelmux.io"), false},
		"of another driver":            {device("gpu.example.com", "model", "M1"), false},
		"of another driver, like ours": {device("gpu.example.com", "accelmux.io/resource", "example.com/gpu"), false},
		"an attribute of another type": {dracel.Device{Driver: "mock.accelmux.io", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"accelmux.io/resource": {IntValue: new(int64)}}}, false},
	} {
		if got, _, err := compiled.DeviceMatches(t.Context(), c.device); err != nil || got != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestWhatClaimsNeed verifies that the agent has the rights and the mount for dynamic resource
// allocation where the configuration or the value asks for it, and nowhere else.
func TestWhatClaimsNeed(t *testing.T) {
	none := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}}}
	rights := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceslices"}, Verbs: []string{"list", "watch", "create", "update", "delete"}},
		{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims/driver"}, Verbs: []string{"associated-node:patch"}},
	}
	plugins := corev1.VolumeMount{Name: "plugins", MountPath: "/var/lib/kubelet/plugins"}
	without := render(t, mockValues...)
	older := slices.Clone(rights)[:len(rights)-2]
	older[len(older)-1] = rbacv1.PolicyRule{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims"}, Verbs: []string{"get"}}
	for name, c := range map[string]struct {
		args []string
		want []rbacv1.PolicyRule
	}{
		"no claims":            {mockValues, none},
		"no claims, by value":  {with("--set", "dra.enabled=false"), none},
		"claims":               {nodeConfigOf(t, mockByClaims), rights},
		"claims, 1.35":         {append(nodeConfigOf(t, mockByClaims), "--kube-version=1.35.0", "--api-versions=resource.k8s.io/v1"), older},
		"claims that end":      {with("--set", "dra.enabled=true"), rights},
		"claims in one of two": {nodeConfigOf(t, strings.Replace(mockByClaims, "[{", "[{name: b, backends: [{name: mock}], resources: [{name: example.com/gpu}]}, {", 1)), rights},
	} {
		t.Run(name, func(t *testing.T) {
			objects := render(t, c.args...)
			if diff := cmp.Diff(c.want, only[*rbacv1.ClusterRole](t, objects).Rules); diff != "" {
				t.Errorf("rights (-want +got):\n%s", diff)
			}
			container := agentContainer(t, objects)
			mounted := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return cmp.Equal(m, plugins) })
			if needed := len(c.want) > 1; mounted != needed || (len(all[*resourcev1.DeviceClass](objects)) > 0) != strings.HasPrefix(name, "claims") && name != "claims that end" {
				t.Errorf("mounted: %v", mounted)
			}
			before := agentContainer(t, without)
			if diff := cmp.Diff(before.SecurityContext, container.SecurityContext); diff != "" {
				t.Errorf("the container's rights (-without +with):\n%s", diff)
			}
			if was, is := only[*appsv1.DaemonSet](t, without).Spec.Template.Spec, only[*appsv1.DaemonSet](t, objects).Spec.Template.Spec; !cmp.Equal(was.SecurityContext, is.SecurityContext) || !cmp.Equal(was.TerminationGracePeriodSeconds, is.TerminationGracePeriodSeconds) {
				t.Error("the pod has other rights, or another time to end")
			}
		})
	}
}

// TestClaimsThatCannotBeServed verifies that the chart refuses what would not work.
func TestClaimsThatCannotBeServed(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"an old cluster":        {[]string{"--kube-version", "1.33.5"}, "needs resource.k8s.io/v1 of Kubernetes 1.34 or later, and the cluster has v1.33.5. Where helm renders without the cluster, give it the cluster's version: --kube-version 1.34.0"},
		"no rights":             {[]string{"--set", "rbac.create=false"}, "that needs rbac.create"},
		"switched off":          {[]string{"--set", "dra.enabled=false"}, "dra.enabled is false, and config has resources with api: dra: example.com/gpu"},
		"names for old cluster": {[]string{"--kube-version", "1.35.0", "--set", "deviceClasses.extendedResourceNames=true"}, "deviceClasses.extendedResourceNames needs Kubernetes 1.36 or later, and the cluster has v1.35.0"},
		"one class for two": {nodeConfigOf(t, `[{name: a, backends: [{name: mock}], resources: [{name: example.com/gpu, api: dra}, {name: example.com/GPU, api: dra}]}]`),
			"the resources example.com/GPU and example.com/gpu would have one DeviceClass, gpu.example.com"},
		"a class without a name": {[]string{"--set-json", `deviceClasses.extra={"My_Class": {}}`}, "'My_Class' does not match pattern"},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := template(t, slices.Concat(nodeConfigOf(t, mockByClaims), c.args)...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s\n%s", err, c.want, out)
			}
		})
	}
	for _, version := range []string{"1.34.0", "1.34.3-gke.100", "1.36.0+k3s1"} {
		if _, err := template(t, append(nodeConfigOf(t, mockByClaims), "--kube-version", version)...); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
	if _, err := template(t, with("--kube-version", "1.33.0")...); err != nil {
		t.Error(fmt.Errorf("an old cluster without claims: %w", err))
	}
}
