package deployments

import (
	"crypto/tls"
	"crypto/x509"
	"path"
	"slices"
	"strings"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestWebhookIsReached verifies that the API server finds the webhook's pod by its service, on a port
// that the program serves, and sends it what it checks. The agents' pods are not meant.
func TestWebhookIsReached(t *testing.T) {
	objects := render(t, valueSets(t)["webhook"]...)
	service, deployment := only[*corev1.Service](t, objects), only[*appsv1.Deployment](t, objects)
	hook := only[*admissionv1.ValidatingWebhookConfiguration](t, objects).Webhooks[0]
	target, container := hook.ClientConfig.Service, deployment.Spec.Template.Spec.Containers[0]
	if target.Name != service.Name || target.Namespace != service.Namespace || *target.Path != "/validate" || *target.Port != service.Spec.Ports[0].Port {
		t.Errorf("the API server calls %+v, and the service is %s with %+v", target, service.Name, service.Spec.Ports)
	}
	if container.Ports[0].Name != service.Spec.Ports[0].TargetPort.StrVal || container.Ports[0].ContainerPort != 8443 || !slices.Contains(container.Args, "--listen=:8443") {
		t.Errorf("the service sends to %v, the container has %+v and %v", service.Spec.Ports[0].TargetPort, container.Ports, container.Args)
	}
	agent := only[*appsv1.DaemonSet](t, objects)
	for _, selector := range []map[string]string{service.Spec.Selector, deployment.Spec.Selector.MatchLabels} {
		if !selects(selector, deployment.Spec.Template.Labels) || selects(selector, agent.Spec.Template.Labels) {
			t.Errorf("%v selects the agents, or not the webhook", selector)
		}
	}
	if selects(agent.Spec.Selector.MatchLabels, deployment.Spec.Template.Labels) {
		t.Error("the DaemonSet selects the webhook")
	}
	if *hook.FailurePolicy != admissionv1.Ignore || *hook.SideEffects != admissionv1.SideEffectClassNone {
		t.Errorf("failurePolicy %s, sideEffects %s", *hook.FailurePolicy, *hook.SideEffects)
	}
	if everything := only[*admissionv1.ValidatingWebhookConfiguration](t, render(t, valueSets(t)["everything"]...)); *everything.Webhooks[0].FailurePolicy != admissionv1.Fail {
		t.Error("the value failurePolicy is not used")
	}
}

func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// TestWebhookCertificate verifies that the certificate that helm makes is for the name by which the
// API server calls the webhook, and is signed by the authority that the API server is given.
func TestWebhookCertificate(t *testing.T) {
	objects := render(t, valueSets(t)["webhook"]...)
	hook := only[*admissionv1.ValidatingWebhookConfiguration](t, objects).Webhooks[0]
	secret := only[*corev1.Secret](t, objects)
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(hook.ClientConfig.CABundle) || !slices.Equal(hook.ClientConfig.CABundle, secret.Data["ca.crt"]) {
		t.Errorf("the API server gets the authority %q, the secret has %q", hook.ClientConfig.CABundle, secret.Data["ca.crt"])
	}
	name := hook.ClientConfig.Service.Name + "." + hook.ClientConfig.Service.Namespace + ".svc"
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots}); err != nil {
		t.Error(err)
	}
	wantCertificate(t, objects, secret.Name)
}

// TestWebhookCertManager verifies that with cert-manager the certificate and the authority come from
// it, by the chart's own Issuer or the given one, in objects that have cert-manager's own types.
func TestWebhookCertManager(t *testing.T) {
	for want, args := range map[string][]string{
		"Issuer accelmux-webhook": nil,
		"ClusterIssuer company":   {"--set", "webhook.certManager.issuerRef.name=company", "--set", "webhook.certManager.issuerRef.kind=ClusterIssuer"},
	} {
		objects := render(t, with(append([]string{"--set", "webhook.enabled=true", "--set", "webhook.certManager.enabled=true"}, args...)...)...)
		certificate := only[*certmanagerv1.Certificate](t, objects)
		hook := only[*admissionv1.ValidatingWebhookConfiguration](t, objects)
		if from := hook.Annotations[certmanagerv1.WantInjectAnnotation]; from != namespace+"/"+certificate.Name || hook.Webhooks[0].ClientConfig.CABundle != nil {
			t.Errorf("the authority comes from %q", from)
		}
		service := hook.Webhooks[0].ClientConfig.Service
		if names := certificate.Spec.DNSNames; !slices.Equal(names, []string{service.Name + "." + service.Namespace + ".svc"}) {
			t.Errorf("the certificate is for %v", names)
		}
		issuers := all[*certmanagerv1.Issuer](objects)
		own := len(issuers) == 1 && "Issuer "+issuers[0].Name == want && issuers[0].Spec.SelfSigned != nil
		if by := certificate.Spec.IssuerRef; by.Kind+" "+by.Name != want || own != (by.Kind == "Issuer") || len(issuers) > 1 {
			t.Errorf("issued by %+v, want %q; the chart's issuers are %+v", by, want, issuers)
		}
		wantCertificate(t, objects, certificate.Spec.SecretName)
	}
}

// wantCertificate verifies that the webhook reads the certificate of a secret.
func wantCertificate(t *testing.T, objects []runtime.Object, secret string) {
	t.Helper()
	pod := only[*appsv1.Deployment](t, objects).Spec.Template.Spec
	for _, flag := range []string{"--tls-cert=", "--tls-key="} {
		n := slices.IndexFunc(pod.Containers[0].Args, func(arg string) bool { return strings.HasPrefix(arg, flag) })
		if n < 0 {
			t.Fatalf("no %s", flag)
		}
		file := strings.TrimPrefix(pod.Containers[0].Args[n], flag)
		mount := mountOf(pod.Containers[0], file)
		v := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if v < 0 || pod.Volumes[v].Secret == nil || pod.Volumes[v].Secret.SecretName != secret || mount.SubPath != "" || path.Dir(file) != mount.MountPath {
			t.Errorf("%s%s is in the mount %+v, want it in one of the secret %s", flag, file, mount, secret)
		}
	}
}

// TestWebhookHasNoRights verifies that the webhook's pod has no token, no rights and no directory of
// the node, gets the configuration and the third parties' programs as the agents do, and is replaced
// when the configuration changes.
func TestWebhookHasNoRights(t *testing.T) {
	args := append(valueSets(t)["example third-party.yaml"], "--set", "webhook.enabled=true")
	objects := render(t, args...)
	template := only[*appsv1.Deployment](t, objects).Spec.Template
	pod, agent := template.Spec, only[*appsv1.DaemonSet](t, objects).Spec.Template.Spec
	yes, no := true, false
	if diff := cmp.Diff(&corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}, pod.Containers[0].SecurityContext); diff != "" {
		t.Errorf("container (-want +got):\n%s", diff)
	}
	if *pod.AutomountServiceAccountToken || !*pod.SecurityContext.RunAsNonRoot || pod.HostNetwork || pod.HostPID {
		t.Errorf("the pod has rights: %+v", pod)
	}
	for _, v := range pod.Volumes {
		if v.HostPath != nil {
			t.Errorf("the volume %s is the node's %s", v.Name, v.HostPath.Path)
		}
	}
	program := "/usr/libexec/accelmux/accelmux-backend-acme"
	if diff := cmp.Diff(mountOf(agent.Containers[0], program+"/"), mountOf(pod.Containers[0], program+"/")); diff != "" || mountOf(pod.Containers[0], program+"/").Name == "" {
		t.Errorf("the third party's program (-agent +webhook):\n%s", diff)
	}
	if diff := cmp.Diff(agent.InitContainers, pod.InitContainers); diff != "" {
		t.Errorf("init containers (-agent +webhook):\n%s", diff)
	}
	if mount := mountOf(pod.Containers[0], "/etc/accelmux/node.yaml"); mount.Name != "config" || !slices.Contains(pod.Containers[0].Args, "--config=/etc/accelmux/node.yaml") {
		t.Errorf("the configuration is in the mount %+v", mount)
	}
	other := only[*appsv1.Deployment](t, render(t, valueSets(t)["webhook"]...)).Spec.Template
	if template.Annotations["checksum/config"] == other.Annotations["checksum/config"] {
		t.Error("a change of the configuration does not replace the pod")
	}
}
