package chart

import (
	"maps"
	"os"
	"slices"
	"testing"

	lua "github.com/yuin/gopher-lua"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestHealthInArgoCD runs the health checks as Argo CD does: a script that sees the object as obj.
func TestHealthInArgoCD(t *testing.T) {
	content, err := os.ReadFile("../config/argocd/argocd-cm.yaml")
	expect.NoError(t, err)
	var patch struct {
		Data map[string]string `json:"data"`
	}
	expect.NoError(t, yaml.UnmarshalStrict(content, &patch))
	const prefix = "resource.customizations.health.cloudteam.ztgame.com_"
	for _, kind := range kinds.All {
		if patch.Data[prefix+kind.Name] == "" {
			t.Errorf("%s has no health check", kind.Name)
		}
	}
	if len(patch.Data) != len(kinds.All) {
		t.Errorf("the keys are %v", slices.Collect(maps.Keys(patch.Data)))
	}
	condition := func(of, status, reason string) metav1.Condition {
		return metav1.Condition{Type: of, Status: metav1.ConditionStatus(status), Reason: reason, Message: "it says why"}
	}
	const unseen = "The controller has not seen the last change yet."
	for name, c := range map[string]struct {
		conditions []metav1.Condition
		observed   int64
		want, says string
	}{
		"new":          {want: "Progressing", says: unseen},
		"changed":      {[]metav1.Condition{condition("Ready", "True", "Available")}, 1, "Progressing", unseen},
		"ready":        {[]metav1.Condition{condition("Ready", "True", "Available")}, 2, "Healthy", "Available: it says why"},
		"retried":      {[]metav1.Condition{condition("Reconciling", "True", "QuotaExceeded"), condition("Ready", "False", "QuotaExceeded")}, 2, "Progressing", "QuotaExceeded: it says why"},
		"refused":      {[]metav1.Condition{condition("Stalled", "True", "Rejected"), condition("Ready", "False", "Rejected")}, 2, "Degraded", "Rejected: it says why"},
		"paused":       {[]metav1.Condition{condition("Ready", "True", "Paused")}, 2, "Suspended", "Paused: it says why"},
		"not judged":   {[]metav1.Condition{condition("AddressesLow", "True", "AddressesLow")}, 2, "Progressing", unseen},
		"ready, drift": {[]metav1.Condition{condition("Ready", "True", "DriftDetected")}, 2, "Healthy", "DriftDetected: it says why"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			n.Status.Conditions, n.Status.ObservedGeneration = c.conditions, c.observed
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(n)
			expect.NoError(t, err)
			for key, script := range patch.Data {
				state := lua.NewState()
				defer state.Close()
				state.SetGlobal("obj", luaOf(state, object))
				if err := state.DoString(script); err != nil {
					t.Fatalf("%s: %v", key, err)
				}
				health, ok := state.Get(-1).(*lua.LTable)
				if !ok {
					t.Fatalf("%s returns no table", key)
				}
				got, says := health.RawGetString("status").String(), health.RawGetString("message").String()
				if got != c.want || says != c.says {
					t.Errorf("%s: %s, %q; want %s, %q", key, got, says, c.want, c.says)
				}
			}
		})
	}
}

// luaOf is a value of an object in Lua.
func luaOf(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, item := range value {
			table.RawSetString(key, luaOf(state, item))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, item := range value {
			table.Append(luaOf(state, item))
		}
		return table
	case string:
		return lua.LString(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case bool:
		return lua.LBool(value)
	}
	return lua.LNil
}
