package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/accelmux/accelmux/cmd/arguments"
)

func newWhyCommand(connection *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "why [NAMESPACE/]POD",
		Short: "Show why a pod waits for devices, or which it has",
		Long: `Shows for a pod that waits the scheduler's message, how much each node has of what the pod asks for, the unhealthy
devices among that, the pod's claims and its warnings; for a pod on a node its devices and their health.`,
		Example: `  kubectl accelmux why train-0 -n team`,
		Args:    arguments.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := connection.open()
			if err != nil {
				return err
			}
			if namespace, pod, ok := strings.Cut(args[0], "/"); ok {
				args[0] = pod
				if namespace != "pod" && namespace != "pods" { // as kubectl get -o name prints it
					c.namespace = namespace
				}
			}
			pod, err := c.client.CoreV1().Pods(c.namespace).Get(cmd.Context(), args[0], metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return fmt.Errorf("%w in namespace %s: name another with -n", err, c.namespace)
			}
			if err != nil {
				return explained(fmt.Errorf("get the pod: %w", err))
			}
			w := &why{cluster: c, out: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), pod: pod}
			return explained(w.explain(cmd.Context()))
		},
	}
}

// why explains one pod.
type why struct {
	*cluster
	out, stderr io.Writer
	pod         *corev1.Pod
	devices     []Device
}

func (w *why) explain(ctx context.Context) error {
	on := cmp.Or(w.pod.Spec.NodeName, "no node yet")
	fmt.Fprintf(w.out, "pod %s/%s is %s on %s\n", w.pod.Namespace, w.pod.Name, w.pod.Status.Phase, on)
	var err error
	w.devices, err = w.cluster.devices(ctx, &nodeSelection{node: w.pod.Spec.NodeName}, w.stderr)
	if err != nil && w.devices == nil {
		return err
	}
	if w.pod.Spec.NodeName == "" {
		if failed := w.waits(ctx); failed != nil {
			return failed
		}
	} else {
		w.has()
	}
	if failed := w.claims(ctx); failed != nil {
		return failed
	}
	if failed := w.warnings(ctx); failed != nil {
		return failed
	}
	return err
}

// has prints the pod's devices.
func (w *why) has() {
	for _, p := range podsOf(w.devices) {
		if p.Namespace != w.pod.Namespace || p.Pod != w.pod.Name {
			continue
		}
		fmt.Fprintln(w.out, "it has:")
		for _, d := range p.Devices {
			fmt.Fprintf(w.out, "  %s/%s, %s\n", d.Backend, d.ID, d.HealthText())
			for _, f := range d.Faults {
				fmt.Fprintf(w.out, "    %s\n", f.Message)
			}
		}
		return
	}
	fmt.Fprintln(w.out, "it has no devices that an agent or a claim lists")
}

// waits prints what the scheduler says, and what the nodes have of what the pod asks for.
func (w *why) waits(ctx context.Context) error {
	for _, condition := range w.pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			fmt.Fprintf(w.out, "the scheduler: %s\n", condition.Message)
		}
	}
	wanted := requests(w.pod)
	if len(wanted) == 0 {
		return nil
	}
	nodes, err := w.nodes(ctx, new(nodeSelection))
	if err != nil {
		return err
	}
	used, err := w.used(ctx)
	if err != nil {
		return err
	}
	classes, err := w.classes(ctx)
	if err != nil {
		return err
	}
	for _, resource := range slices.Sorted(maps.Keys(wanted)) {
		fmt.Fprintf(w.out, "it asks for %d %s:\n", wanted[resource], resource)
		found := false
		for _, node := range nodes {
			capacity, allocatable := node.Status.Capacity[resource], node.Status.Allocatable[resource]
			if capacity.IsZero() {
				continue
			}
			found = true
			free := max(allocatable.Value()-used[node.Name][resource], 0)
			fmt.Fprintf(w.out, "  node %s has %d, %d healthy, %d free%s\n", node.Name, capacity.Value(), allocatable.Value(), free, schedulable(node))
			w.unhealthy(node.Name, string(resource))
		}
		if class := classes[resource]; class != "" {
			fmt.Fprintf(w.out, "  the DeviceClass %s serves it by claims on nodes that have none\n", class)
		} else if !found {
			fmt.Fprintln(w.out, "  no node has it: is the name right, and does an agent or device plugin serve it?")
		}
	}
	return nil
}

// classes returns the DeviceClasses that serve extended resources (KEP-5004), by resource; none in a cluster without them.
func (w *why) classes(ctx context.Context) (map[corev1.ResourceName]string, error) {
	list, err := w.client.ResourceV1().DeviceClasses().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("list deviceclasses: %w", err)
	}
	classes := map[corev1.ResourceName]string{}
	for _, class := range list.Items {
		classes[corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix+class.Name)] = class.Name
		if name := class.Spec.ExtendedResourceName; name != nil {
			classes[corev1.ResourceName(*name)] = class.Name
		}
	}
	return classes, nil
}

func schedulable(node corev1.Node) string {
	if node.Spec.Unschedulable {
		return ", and is cordoned itself"
	}
	return ""
}

// unhealthy prints the devices of a node that are in the resource and not healthy.
func (w *why) unhealthy(node, resource string) {
	for _, d := range w.devices {
		if d.Node == node && d.Resource == resource && !d.Healthy {
			fmt.Fprintf(w.out, "    %s/%s is %s\n", d.Backend, d.ID, d.HealthText())
			for _, f := range d.Faults {
				if f.Message != "" {
					fmt.Fprintf(w.out, "      %s\n", f.Message)
				}
			}
		}
	}
}

// requests returns the extended resources that a pod asks for. Init containers run one after another, so the highest
// request of these counts if it is more than that of the others together.
func requests(pod *corev1.Pod) map[corev1.ResourceName]int64 {
	sum, highest := map[corev1.ResourceName]int64{}, map[corev1.ResourceName]int64{}
	for _, container := range pod.Spec.Containers {
		for name, quantity := range container.Resources.Limits {
			if isExtended(name) {
				sum[name] += quantity.Value()
			}
		}
	}
	for _, container := range pod.Spec.InitContainers {
		for name, quantity := range container.Resources.Limits {
			if isExtended(name) {
				highest[name] = max(highest[name], quantity.Value())
			}
		}
	}
	for name, amount := range highest {
		sum[name] = max(sum[name], amount)
	}
	return sum
}

// isExtended reports whether a resource is an extended one: it has a domain that is not Kubernetes' own.
func isExtended(name corev1.ResourceName) bool {
	domain, _, ok := strings.Cut(string(name), "/")
	return strings.HasPrefix(string(name), resourceapi.ResourceDeviceClassPrefix) || ok && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

// used returns what the pods that the user may list have of extended resources, by node.
func (w *why) used(ctx context.Context) (map[string]map[corev1.ResourceName]int64, error) {
	pods, err := allowed(w.namespace, func(namespace string) (*corev1.PodList, error) {
		return w.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	used := map[string]map[corev1.ResourceName]int64{}
	for _, pod := range pods.Items {
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if used[pod.Spec.NodeName] == nil {
			used[pod.Spec.NodeName] = map[corev1.ResourceName]int64{}
		}
		for name, amount := range requests(&pod) {
			used[pod.Spec.NodeName][name] += amount
		}
	}
	return used, nil
}

// claims prints the pod's claims, and which devices each has.
func (w *why) claims(ctx context.Context) error {
	for _, name := range claimNames(w.pod) {
		claim, err := w.client.ResourceV1().ResourceClaims(w.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			fmt.Fprintf(w.out, "claim %s does not exist\n", name)
			continue
		case err != nil:
			return fmt.Errorf("get the claim: %w", err)
		case claim.Status.Allocation == nil:
			fmt.Fprintf(w.out, "claim %s is not allocated: no node's slices have what it asks for, or the scheduler has not tried yet\n", claim.Name)
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			fmt.Fprintf(w.out, "claim %s has device %s of driver %s, pool %s\n", claim.Name, r.Device, r.Driver, r.Pool)
		}
	}
	return nil
}

// claimNames returns the claims of a pod: those that it names, those made from templates, and the one that the scheduler made
// for extended resources.
func claimNames(pod *corev1.Pod) (names []string) {
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			names = append(names, *c.ResourceClaimName)
		}
	}
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			names = append(names, *s.ResourceClaimName)
		}
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		names = append(names, s.ResourceClaimName)
	}
	return names
}

// warnings prints the pod's Events that are warnings.
func (w *why) warnings(ctx context.Context) error {
	events, err := w.client.CoreV1().Events(w.pod.Namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
		"involvedObject.uid": string(w.pod.UID), "type": corev1.EventTypeWarning,
	}.AsSelector().String()})
	if err != nil {
		return fmt.Errorf("list events: %w", err)
	}
	for _, e := range events.Items {
		if e.Reason != "FailedScheduling" { // the scheduler's message is shown
			fmt.Fprintf(w.out, "%s: %s\n", e.Reason, e.Message)
		}
	}
	return nil
}
