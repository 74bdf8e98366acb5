package doctor

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Verifies what is read of the node: its resources, and the devices of the slices that count; and that an account
// without the right is told which one it needs.
func TestReadCluster(t *testing.T) {
	slice := func(driver string, generation int64, devices int) resourceapi.ResourceSlice {
		return resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, Pool: resourceapi.ResourcePool{Name: "n1", Generation: generation}, Devices: make([]resourceapi.Device, devices),
		}}
	}
	answers := map[string]any{
		"/api/v1/nodes/n1": &corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, Status: corev1.NodeStatus{
			Capacity:    corev1.ResourceList{"ex.com/a": resource.MustParse("4")},
			Allocatable: corev1.ResourceList{"ex.com/a": resource.MustParse("3")},
		}},
		"/apis/resource.k8s.io/v1/resourceslices": &resourceapi.ResourceSliceList{
			TypeMeta: metav1.TypeMeta{Kind: "ResourceSliceList", APIVersion: "resource.k8s.io/v1"},
			Items:    []resourceapi.ResourceSlice{slice("a", 1, 5), slice("a", 2, 3), slice("a", 2, 1), slice("b", 1, 2)},
		},
	}
	forbidden := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := answers[r.URL.Path]
		if field := r.URL.Query().Get("fieldSelector"); strings.HasSuffix(r.URL.Path, "slices") && field != "spec.nodeName=n1" {
			t.Errorf("slices are selected by %q", field)
		}
		if forbidden {
			w.WriteHeader(http.StatusForbidden)
			answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Reason: metav1.StatusReasonForbidden, Code: 403, Message: `User "jo" cannot get resource`}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	text := "{clusters: [{name: c, cluster: {server: '" + server.URL + "'}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := ReadCluster(t.Context(), kubeconfig, "n1", true)
	want := &Cluster{
		Node: "n1", Capacity: map[string]int64{"ex.com/a": 4}, Allocatable: map[string]int64{"ex.com/a": 3},
		Published: map[string]int{"a": 4, "b": 2},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got, err := ReadCluster(t.Context(), kubeconfig, "n1", false); err != nil || len(got.Published) != 0 {
		t.Errorf("without slices: %+v, %v", got, err)
	}
	forbidden = true
	if _, err := ReadCluster(t.Context(), kubeconfig, "n1", true); err == nil || !strings.Contains(err.Error(), "needs the verb get on nodes") {
		t.Error(err)
	}
	if _, err := ReadCluster(t.Context(), "", "n1", true); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Error(err)
	}
}
