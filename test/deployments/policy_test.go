package deployments

import (
	"slices"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	admissionapi "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// expression is an expression of a policy; name is that of a variable.
type expression struct {
	name, text string
	returns    *celgo.Type
}

func (e expression) GetName() string            { return e.name }
func (e expression) GetExpression() string      { return e.text }
func (e expression) ReturnTypes() []*celgo.Type { return []*celgo.Type{e.returns} }

// decide evaluates a policy as the API server does: applies is whether its conditions match, and
// messages are those of the validations that fail.
func decide(t *testing.T, policy *admissionv1.ValidatingAdmissionPolicy, request *admissionapi.AdmissionRequest, object, old runtime.Object) (applies bool, messages []string) {
	t.Helper()
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	none := plugincel.OptionalVariableDeclarations{}
	for _, v := range policy.Spec.Variables {
		if result := compiler.CompileAndStoreVariable(expression{v.Name, v.Expression, celgo.AnyType}, none, environment.StoredExpressions); result.Error != nil {
			t.Fatal(result.Error)
		}
	}
	evaluate := func(text string, returns *celgo.Type) any {
		t.Helper()
		condition := compiler.CompileCondition([]plugincel.ExpressionAccessor{expression{"", text, returns}}, none, environment.StoredExpressions)
		attributes := &admission.VersionedAttributes{VersionedObject: admission.NewLazyObject(object), VersionedOldObject: admission.NewLazyObject(old)}
		results, _, err := condition.ForInput(t.Context(), attributes, request, plugincel.OptionalVariableBindings{}, nil, celconfig.RuntimeCELCostBudget)
		if err != nil || results[0].Error != nil {
			t.Fatalf("%s: %v, %v", text, err, results)
		}
		return results[0].EvalResult.Value()
	}
	for _, condition := range policy.Spec.MatchConditions {
		if evaluate(condition.Expression, celgo.BoolType) != true {
			return false, nil
		}
	}
	for _, validation := range policy.Spec.Validations {
		if evaluate(validation.Expression, celgo.BoolType) == true {
			continue
		}
		message := validation.Message
		if validation.MessageExpression != "" {
			message = evaluate(validation.MessageExpression, celgo.StringType).(string)
		}
		messages = append(messages, message)
	}
	return true, messages
}

// TestOwnNode verifies that the agents may write the condition AcceleratorsReady of the Node that their token names if the
// value is set, and nothing else.
func TestOwnNode(t *testing.T) {
	on := with("--set", "nodeCondition.enabled=true,serviceAccount.name=mine")
	objects := render(t, on...)
	policy := only[*admissionv1.ValidatingAdmissionPolicy](t, objects)
	binding := only[*admissionv1.ValidatingAdmissionPolicyBinding](t, objects)
	if binding.Spec.PolicyName != policy.Name || !slices.Equal(binding.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny}) {
		t.Errorf("bound as %+v", binding.Spec)
	}
	right := func(r rbacv1.PolicyRule) bool {
		return cmp.Equal(r, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}})
	}
	if !slices.ContainsFunc(only[*rbacv1.ClusterRole](t, objects).Rules, right) || !slices.Contains(agentContainer(t, objects).Args, "--node-condition") {
		t.Error("the agents cannot write it")
	}
	without := render(t, mockValues...)
	if slices.ContainsFunc(only[*rbacv1.ClusterRole](t, without).Rules, right) || slices.Contains(agentContainer(t, without).Args, "--node-condition") {
		t.Error("the agents write it without the value")
	}
	for flag, want := range map[string]string{"--kube-version=1.29.0": "of Kubernetes 1.30 or later, and the cluster has v1.29.0", "--set=rbac.create=false": "needs rbac.create"} {
		if _, err := template(t, append(on, flag)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flag, err)
		}
	}

	const agent = "system:serviceaccount:" + namespace + ":mine"
	node := func(name string, change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"a": "b"}}}
		n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("2")}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		change(n)
		return n
	}
	nothing := func(*corev1.Node) {}
	condition := func(kind corev1.NodeConditionType) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue})
		}
	}
	const nothingElse = "and nothing else"
	for name, c := range map[string]struct {
		user, node string // of the token
		of         string // the Node
		change     func(*corev1.Node)
		refused    string
	}{
		"its condition":          {agent, "node-1", "node-1", condition("AcceleratorsReady"), ""},
		"another's condition":    {agent, "node-1", "node-2", condition("AcceleratorsReady"), "the agent on node node-1 may write the status of its own Node only, not of node-2"},
		"a token without a node": {agent, "", "node-1", condition("AcceleratorsReady"), "(its token names none)"},
		"another condition":      {agent, "node-1", "node-1", condition("DiskPressure"), nothingElse},
		"kubelet's condition":    {agent, "node-1", "node-1", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, nothingElse},
		"capacity":               {agent, "node-1", "node-1", func(n *corev1.Node) { n.Status.Capacity["example.com/gpu"] = resource.MustParse("8") }, nothingElse},
		"allocatable":            {agent, "node-1", "node-1", func(n *corev1.Node) { n.Status.Allocatable = n.Status.Capacity }, nothingElse},
		"labels":                 {agent, "node-1", "node-1", func(n *corev1.Node) { n.Labels = nil }, nothingElse},
		"another account":        {"system:node:node-1", "", "node-1", condition("DiskPressure"), ""},
	} {
		request := &admissionapi.AdmissionRequest{UserInfo: authenticationv1.UserInfo{Username: c.user}}
		if c.node != "" {
			request.UserInfo.Extra = map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/node-name": {c.node}}
		}
		applies, messages := decide(t, policy, request, node(c.of, c.change), node(c.of, nothing))
		if applies != (c.user == agent) || len(messages) > 0 != (c.refused != "") || !strings.Contains(strings.Join(messages, "; "), c.refused) {
			t.Errorf("%s: applies: %v, refused: %q, want %q", name, applies, messages, c.refused)
		}
	}
}

// TestOwnSlices verifies that the admission policy keeps the agents' account, and no other, to the
// ResourceSlices of the node that the token names, and that it is in force.
func TestOwnSlices(t *testing.T) {
	objects := render(t, append(nodeConfigOf(t, mockByClaims), "--set", "serviceAccount.name=mine")...)
	policy := only[*admissionv1.ValidatingAdmissionPolicy](t, objects)
	binding := only[*admissionv1.ValidatingAdmissionPolicyBinding](t, objects)
	if binding.Spec.PolicyName != policy.Name || len(binding.Spec.ValidationActions) != 1 || binding.Spec.ValidationActions[0] != admissionv1.Deny {
		t.Errorf("bound as %+v", binding.Spec)
	}
	if len(all[*admissionv1.ValidatingAdmissionPolicy](render(t, mockValues...))) > 0 {
		t.Error("a policy without resources that claims can have")
	}
	const agent = "system:serviceaccount:" + namespace + ":mine"
	slice := func(node string) runtime.Object {
		if node == "all" {
			return &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{AllNodes: new(true)}}
		}
		return &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{NodeName: &node}}
	}
	for name, c := range map[string]struct {
		user, node  string // of the token
		object, old runtime.Object
		refused     string
	}{
		"creates its own":            {agent, "node-1", slice("node-1"), nil, ""},
		"updates its own":            {agent, "node-1", slice("node-1"), slice("node-1"), ""},
		"deletes its own":            {agent, "node-1", nil, slice("node-1"), ""},
		"creates another's":          {agent, "node-1", slice("node-2"), nil, "the agent on node node-1 may write ResourceSlices of its own node only, not of node node-2"},
		"updates another's":          {agent, "node-1", slice("node-2"), slice("node-2"), "not of node node-2"},
		"deletes another's":          {agent, "node-1", nil, slice("node-2"), "not of node node-2"},
		"creates one of all nodes":   {agent, "node-1", slice("all"), nil, "not of several nodes"},
		"a token without a node":     {agent, "", slice("node-1"), nil, "the agent's token does not name a node"},
		"and a slice without a node": {agent, "", slice("all"), nil, "the agent's token does not name a node"},
		"another driver's account":   {"system:serviceaccount:other:mine", "node-1", slice("node-2"), nil, ""},
	} {
		request := &admissionapi.AdmissionRequest{UserInfo: authenticationv1.UserInfo{Username: c.user}}
		if c.node != "" {
			request.UserInfo.Extra = map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/node-name": {c.node}}
		}
		applies, messages := decide(t, policy, request, c.object, c.old)
		if applies != (c.user == agent) || len(messages) > 0 != (c.refused != "") || !strings.Contains(strings.Join(messages, "; "), c.refused) {
			t.Errorf("%s: applies: %v, refused: %q, want %q", name, applies, messages, c.refused)
		}
	}
	rule := policy.Spec.MatchConstraints.ResourceRules[0]
	if writes := []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete}; !slices.Equal(rule.Operations, writes) {
		t.Errorf("the policy is for %v, want %v", rule.Operations, writes)
	}
}
