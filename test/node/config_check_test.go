package node

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/core/condition"
)

// A configuration that agents would refuse is refused by helm, with what is wrong, before anything is installed or
// changed; the log of the Job stays until the next attempt. Without that check, an agent that has nothing else says what
// is wrong in the container's status and in the Node's condition.
func TestRefusedConfiguration(t *testing.T) {
	n := begin(t)
	n.prepareNamespace()
	const wrong = "node.yaml:7:20: profiles[0].backends[0].settings.count: must be a whole number from 0 to 4096, is " // helm escapes quotes
	bad := strings.Replace(eightGPUs, "count: 8", "count: many", 1)
	on := values{"configCheck": values{"enabled": true}}
	refused := func(verb string) {
		t.Helper()
		n.installed = true
		ctx, cancel := context.WithTimeout(context.Background(), patience+time.Minute)
		defer cancel()
		if out, err := run(ctx, "helm", verb, release, chart, "--namespace="+namespace, "--timeout="+patience.String(), "--values="+n.values(bad, on)); err == nil || !strings.Contains(out+err.Error(), wrong) {
			t.Errorf("%s: %v\n%s", verb, err, out)
		}
		if log := n.must("kubectl", "--namespace="+namespace, "logs", "job/accelmux-config-check"); !strings.Contains(log, wrong) {
			t.Errorf("%s: the log of the Job is %s", verb, log)
		}
	}
	refused("install")
	if _, err := client.AppsV1().DaemonSets(namespace).Get(n.soon(), release, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the agents were installed: %v", err)
	}
	n.helm("upgrade", "--install", "--wait", "--values="+n.values(eightGPUs, on))
	n.wantCounts(gpu, 8, 8)
	if _, err := client.BatchV1().Jobs(namespace).Get(n.soon(), "accelmux-config-check", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Job of an accepted configuration stays: %v", err)
	}
	refused("upgrade")
	config, err := client.CoreV1().ConfigMaps(namespace).Get(n.soon(), release, metav1.GetOptions{})
	if err != nil || strings.Contains(config.Data["node.yaml"], "many") {
		t.Errorf("the agents were given the refused configuration: %v", err)
	}

	n.clean()
	n.prepareNamespace()
	n.helm("install", "--values="+n.values(bad, values{"nodeCondition": values{"enabled": true}}))
	n.untilAgentPod("one that says why it ended", func(pod *v1.Pod) bool {
		for _, c := range pod.Status.ContainerStatuses {
			for _, state := range []v1.ContainerState{c.State, c.LastTerminationState} {
				if state.Terminated != nil && strings.Contains(state.Terminated.Message, wrong) {
					return true
				}
			}
		}
		return false
	})
	if c := n.wantCondition(v1.ConditionFalse, condition.NotReady); !strings.Contains(c.Message, wrong) {
		t.Errorf("the Node's condition is %+v", c)
	}
}
