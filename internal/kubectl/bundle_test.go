package kubectl

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"
	clienttesting "k8s.io/client-go/testing"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// supported is a cluster that somebody asks for support with.
type supported struct {
	objects []runtime.Object
	// logs and metrics are those of all containers and Pods of ours.
	logs, metrics string
	// cloud is OS_CLOUD.
	cloud string
	// refuses gives the error of a request; nil for none.
	refuses func(clienttesting.Action) error
}

// supportedCluster has a Deployment whose last port has no address, with what its programs say.
func supportedCluster() *supported {
	agent := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "network-agent", Name: "network-agent-x2x9k"}}
	agent.Spec.Containers = []corev1.Container{{Name: "agent", Image: "registry.example.org/network-controller:v1.2.0"},
		{Name: "mesh", Args: []string{"of another project"}}}
	agent.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", RestartCount: 1,
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled"}}}}
	controller := leader("registry.example.org/network-controller:v1.2.0")
	controller.Spec.Containers[0].Args = []string{"--cloud=openstack"}
	controller.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
	pod := &corev1.Pod{ObjectMeta: named("web-5d9c7b8f4-x2x9k")}
	pod.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "frontend"}
	pod.Status.Phase = corev1.PodPending
	other := &corev1.Pod{ObjectMeta: named("unrelated")}
	debug := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "network-controller", Name: "debug"}}
	debug.Spec.Containers = []corev1.Container{{Name: "shell", Args: []string{"of another project"}}}
	failed := &corev1.Event{ObjectMeta: named("web-frontend-2.17a"), Type: "Warning", Reason: "AddressesExhausted", Message: "No address is free.",
		LastTimestamp: metav1.NewTime(now)}
	failed.InvolvedObject = corev1.ObjectReference{Kind: "NetworkPort", Namespace: "shop", Name: "web-frontend-2"}
	old := failed.DeepCopy()
	old.Name, old.Message, old.LastTimestamp = "old", "This is of last month.", metav1.NewTime(now.AddDate(0, -1, 0))
	unrelated := failed.DeepCopy()
	unrelated.Name, unrelated.Message, unrelated.InvolvedObject.Name = "unrelated", "This is of another object.", "unrelated"
	stuck := webPort("stuck", "")
	stuck.DeletionTimestamp, stuck.Finalizers = new(metav1.NewTime(now)), []string{cloudteamv1.PortFinalizer}
	return &supported{
		objects: []runtime.Object{stuck, frontend(5), webPort("web-frontend-1", "192.168.0.4/29"), webPort("web-frontend-2", ""), pod, other, debug, agent,
			controller, running(), failed, old, unrelated, web("False", "PortsFailed", "1 of 3 ports cannot be created"),
			kubeSystem()},
		logs: "I0301 12:00:00 sync.go:1] \"Synced\"\n", metrics: "network_controller_orphans{state=\"due\"} 0\n",
	}
}

// bundle runs the command, and gives what it prints and the files that it writes, the first one first.
func (s *supported) bundle(t *testing.T, path, flags string) (out string, code int, names []string, files map[string]string) {
	t.Helper()
	f, printed := factoryOf(t, s.objects)
	t.Setenv("OS_CLOUD", s.cloud)
	inner := f.clients
	f.clients = func() (kubernetes.Interface, versioned.Interface, error) {
		kube, ours, err := inner()
		refused := func(a clienttesting.Action) (bool, runtime.Object, error) {
			if s.refuses != nil {
				if err := s.refuses(a); err != nil {
					return true, nil, err
				}
			}
			if a.GetResource().Resource == "secrets" || a.GetResource().Resource == "configmaps" {
				t.Errorf("it reads %s", a.GetResource().Resource)
			}
			if a.GetSubresource() == "log" {
				return true, &runtime.Unknown{Raw: []byte(s.logs)}, nil
			}
			if verb := a.GetVerb(); verb != "get" && verb != "list" {
				t.Errorf("it sends %s %s", verb, a.GetResource().Resource)
			}
			return false, nil, nil
		}
		served := silent{kube.(publishing).Clientset}
		served.PrependReactor("*", "*", refused)
		ours.(*fake.Clientset).PrependReactor("*", "*", refused)
		return served, ours, err
	}
	f.metrics = func(_ context.Context, _ kubernetes.Interface, pod *corev1.Pod, port int32) (string, error) {
		if want := map[bool]int32{true: 8080, false: 9479}[pod.Namespace == "network-controller"]; port != want {
			t.Errorf("it asks port %d of %s", port, pod.Name)
		}
		return s.metrics, nil
	}
	f.ahead = nil
	c := f.command()
	c.SetContext(t.Context())
	out, code = execute(c, printed, "bundle -o "+path+" "+flags)
	names, files = unpack(t, path)
	return out, code, names, files
}

// silent is a Clientset of an API server that publishes no schemas: comparing them takes long.
type silent struct{ *kubefake.Clientset }

func (s silent) Discovery() discovery.DiscoveryInterfaces { return schemaless{s.Clientset.Discovery()} }

type schemaless struct{ discovery.DiscoveryInterfaces }

func (schemaless) OpenAPIV3() openapi.Client {
	return openapitest.FakeClient{ForcedErr: errors.New("no schemas")}
}

func unpack(t *testing.T, path string) (names []string, files map[string]string) {
	t.Helper()
	packed, err := os.ReadFile(path)
	expect.NoError(t, err)
	content, err := gzip.NewReader(bytes.NewReader(packed))
	expect.NoError(t, err)
	files = map[string]string{}
	for from := tar.NewReader(content); ; {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return names, files
		}
		expect.NoError(t, err)
		all, err := io.ReadAll(from)
		expect.NoError(t, err)
		names, files[header.Name] = append(names, header.Name), string(all)
	}
}

func TestABundleHasWhatSupportNeeds(t *testing.T) {
	s := supportedCluster()
	out, code, names, files := s.bundle(t, filepath.Join(t.TempDir(), "a.tar.gz"), "-n shop")
	expect.Equal(t, 0, code, "the exit code of %s", out)
	expect.Equal(t, []string{
		"index.txt", "conditions.txt", "doctor.txt", "events.txt", "logs/network-agent-x2x9k/agent.log",
		"logs/network-agent-x2x9k/agent.previous.log", "logs/" + leaderName + "/controller.log", "metrics/network-agent-x2x9k.txt",
		"metrics/" + leaderName + ".txt", "objects/network-agent/pods.yaml", "objects/network-controller/pods.yaml",
		"objects/shop/deployments.yaml", "objects/shop/networkports.yaml", "objects/shop/networks.yaml", "objects/shop/pods.yaml",
		"why.txt"}, trimmed(names), "the files")
	for name, wants := range map[string][]string{
		"index.txt": {"about shop", "doctor.txt", "what plan says: a plan needs Neutron: name a cloud of your clouds.yaml with --cloud",
			"Removed or not read: - Secrets and ConfigMaps"},
		"doctor.txt":                           {"NetworkPorts", "2 AddressesExhausted"},
		"conditions.txt":                       {"NetworkPort shop/web-frontend-2  Ready=False  AddressesExhausted"},
		"why.txt":                              {"Network shop/frontend  Full", "What to do:", "Pod shop/web-5d9c7b8f4-x2x9k", "NetworkPort shop/stuck"},
		"events.txt":                           {"Warning NetworkPort shop/web-frontend-2 AddressesExhausted (1 times): No address is free."},
		"objects/network-controller/pods.yaml": {"--cloud=openstack"},
		"objects/shop/networks.yaml":           {"apiVersion: cloudteam.ztgame.com/v1", "kind: Network", "cidr: 192.168.0.0/29"},
		"objects/shop/pods.yaml":               {"kind: Pod", "k8s.v1.cni.cncf.io/networks: frontend"},
	} {
		for _, want := range wants {
			if got := strings.Join(strings.Fields(files["network-bundle/"+name]), " "); !strings.Contains(got, strings.Join(strings.Fields(want), " ")) {
				t.Errorf("%s lacks %q:\n%s", name, want, files["network-bundle/"+name])
			}
		}
	}
	all := fmt.Sprint(files)
	for _, not := range []string{"unrelated", "of last month", "of another object", "of another project"} {
		if strings.Contains(all, not) {
			t.Errorf("it has %q", not)
		}
	}
	if !strings.Contains(out, files["network-bundle/index.txt"]) || !strings.Contains(out, "Look through it") {
		t.Errorf("it does not print the index:\n%s", out)
	}
}

func TestABundleHasTheServicesOfNetworks(t *testing.T) {
	for annotation, want := range map[string]bool{
		cloudteamv1.AnnotationFloatingIP: true, cloudteamv1.AnnotationEndpointsNetwork: true, "example.com/other": false,
	} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotation: "frontend"}}}
		expect.Equal(t, want, usesNetworks(service), "a Service with %s is in it", annotation)
	}
}

func trimmed(names []string) (all []string) {
	for _, name := range names {
		all = append(all, strings.TrimPrefix(name, "network-bundle/"))
	}
	return all
}

// TestABundleHasWhatTheUserMayRead has a user with rights in one namespace alone.
func TestABundleHasWhatTheUserMayRead(t *testing.T) {
	s := supportedCluster()
	s.refuses = func(a clienttesting.Action) error {
		if a.GetNamespace() != "shop" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: a.GetResource().Resource}, "", errors.New("it is not yours"))
		}
		return nil
	}
	out, code, names, files := s.bundle(t, filepath.Join(t.TempDir(), "a.tar.gz"), "-n shop")
	expect.Equal(t, 0, code, "the exit code of %s", out)
	expect.Equal(t, []string{"index.txt", "conditions.txt", "doctor.txt", "events.txt", "objects/shop/deployments.yaml",
		"objects/shop/networkports.yaml", "objects/shop/networks.yaml", "objects/shop/pods.yaml", "why.txt"}, trimmed(names), "the files")
	for _, want := range []string{"Pods of network-controller: pods is forbidden", "kind NetworkClass: networkclasses is forbidden", "Pods of network-agent: pods is forbidden",
		"Events: events is forbidden"} {
		if !strings.Contains(files["network-bundle/index.txt"], want) {
			t.Errorf("the index lacks %q:\n%s", want, out)
		}
	}
}

func TestABundleIsWrittenWhenNobodyAnswers(t *testing.T) {
	s := supportedCluster()
	s.refuses = func(clienttesting.Action) error { return errors.New("connection refused") }
	out, code, names, _ := s.bundle(t, filepath.Join(t.TempDir(), "a.tar.gz"), "-A")
	expect.Equal(t, 0, code, "the exit code of %s", out)
	expect.Equal(t, []string{"index.txt", "doctor.txt"}, trimmed(names), "the files")
	expect.Equal(t, true, strings.Contains(out, "objects of the kind Network: connection refused"), "it says so:\n%s", out)
}

// TestABundleHasManyObjects has more in trouble than why is asked about.
func TestABundleHasManyObjects(t *testing.T) {
	s := &supported{}
	for i := range maxAnswers + 7 {
		s.objects = append(s.objects, webPort(fmt.Sprintf("p-%02d", i), ""))
	}
	out, _, _, files := s.bundle(t, filepath.Join(t.TempDir(), "a.tar.gz"), "-n shop")
	expect.Equal(t, maxAnswers+7, strings.Count(files["network-bundle/conditions.txt"], "Ready=False"), "conditions")
	expect.Equal(t, true, strings.Contains(out, "nobody asked about 7 more objects"), "it says so:\n%s", out)
}

func TestABundleOverwritesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.tar.gz")
	expect.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	out, code := run(t, nil, "bundle -o "+path)
	expect.Equal(t, 1, code, "the exit code")
	expect.Equal(t, true, strings.Contains(out, "name another file with -o"), "it says %s", out)
	out, code = run(t, nil, "bundle --since 0s")
	expect.Equal(t, "Error: --since 0s: write 1s or more\n", out, "what it says")
	expect.Equal(t, 1, code, "the exit code")
}

// TestALogThatCannotBeReadIsMissing has an API server that says why.
func TestALogThatCannotBeReadIsMissing(t *testing.T) {
	s := supportedCluster()
	s.refuses = func(a clienttesting.Action) error {
		if a.GetSubresource() == "log" {
			return errors.New("the node does not answer")
		}
		return nil
	}
	out, code, names, _ := s.bundle(t, filepath.Join(t.TempDir(), "a.tar.gz"), "-n shop")
	expect.Equal(t, 0, code, "the exit code")
	expect.Equal(t, false, strings.Contains(fmt.Sprint(names), "logs/"), "it has no log")
	expect.Equal(t, true, strings.Contains(out, "agent.previous: "), "it says so:\n%s", out)
}

func TestABundleHasTheEndOfALog(t *testing.T) {
	s := supportedCluster()
	s.logs = strings.Repeat("an old line\n", maxLog/12+10) + "the last line\n"
	_, _, _, files := s.bundle(t, filepath.Join(t.TempDir(), "a.tar.gz"), "-n shop")
	log := files["network-bundle/logs/"+leaderName+"/controller.log"]
	if len(log) > maxLog || !strings.HasPrefix(log, "an old line\n") || !strings.HasSuffix(log, "the last line\n") {
		t.Errorf("%d bytes, from %.20q", len(log), log)
	}
	expect.Equal(t, true, strings.Contains(files["network-bundle/index.txt"], "KiB are missing"), "the index says so")
}

// TestABundleReadsLogsLast has nodes that do not answer before the collection ends.
func TestABundleReadsLogsLast(t *testing.T) {
	s := supportedCluster()
	var asked []string
	s.refuses = func(a clienttesting.Action) error {
		if a.GetSubresource() == "log" {
			asked = append(asked, "log in "+a.GetNamespace())
		} else if a.GetResource().Resource == "events" {
			asked = append(asked, "Events in "+a.GetNamespace())
		}
		return nil
	}
	s.bundle(t, filepath.Join(t.TempDir(), "a.tar.gz"), "-A")
	first := slices.Index(asked, "log in network-controller")
	expect.Equal(t, []string{"log in network-controller", "log in network-agent", "log in network-agent"}, asked[first:], "the end")
	expect.Equal(t, "Events in ", asked[first-1], "before the logs")
}

// TestEventsCannotDeceive has Events of somebody who writes lines and dates of others.
func TestEventsCannotDeceive(t *testing.T) {
	s := supportedCluster()
	forged := s.objects[10].(*corev1.Event).DeepCopy()
	forged.Name, forged.Reason = "forged", "Failed\n2026-01-01T00:00:00Z Normal"
	future := forged.DeepCopy()
	future.Name, future.Reason, future.LastTimestamp = "future", "OfTheFuture", metav1.NewTime(now.AddDate(1, 0, 0))
	key := forged.DeepCopy()
	key.Name, key.Reason, key.Message = "zzz", "Failed", "-----BEGIN PRIVATE KEY-----"
	s.objects = append(s.objects, forged, future, key)
	_, _, _, files := s.bundle(t, filepath.Join(t.TempDir(), "a.tar.gz"), "-n shop")
	events := files["network-bundle/events.txt"]
	expect.Equal(t, 3, strings.Count(events, "\n"), "lines of\n%s", events)
	expect.Equal(t, false, strings.Contains(events, "OfTheFuture"), "one of the future is in\n%s", events)
	expect.Equal(t, true, strings.Contains(events, "AddressesExhausted (1 times): No address"), "the others are in\n%s", events)
}

// TestABundleNeedsNoCloudsFile has OS_CLOUD and no clouds.yaml.
func TestABundleNeedsNoCloudsFile(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("OS_CLIENT_CONFIG_FILE", "none.yaml")
	s := supportedCluster()
	s.cloud = "mycloud"
	out, code, _, files := s.bundle(t, "a.tar.gz", "-n shop")
	expect.Equal(t, 0, code, "the exit code of %s", out)
	expect.Equal(t, true, strings.Contains(files["network-bundle/index.txt"], "what plan says: cloud \"mycloud\""), "it is missing in %s", out)
	out, code = run(t, nil, "bundle -o b.tar.gz --cloud unknown")
	expect.Equal(t, 1, code, "the exit code of %s", out)
	_, err := os.Stat("b.tar.gz")
	expect.Equal(t, true, os.IsNotExist(err), "no file")
}

// TestABundleHasThePlan has a cloud where nothing is yet.
func TestABundleHasThePlan(t *testing.T) {
	t.Chdir(t.TempDir())
	listener := neutrontest.New(neutrontest.Options{}).Start(t)
	write(t, "clouds.yaml", strings.Replace(listener.CloudsYAML(), "  tenant:", "  mycloud:", 1))
	t.Setenv("OS_CLIENT_CONFIG_FILE", "clouds.yaml")
	var s supported
	s.objects = []runtime.Object{backend(), kubeSystem()}
	_, code, _, files := s.bundle(t, "a.tar.gz", "-n shop --cloud mycloud")
	expect.Equal(t, 0, code, "the exit code")
	plan := files["network-bundle/plan.txt"]
	expect.Equal(t, true, strings.Contains(plan, "Network shop/backend\n  1. create network"), "the plan is %s", plan)
	clouds, err := os.ReadFile("clouds.yaml")
	expect.NoError(t, err)
	for _, password := range regexp.MustCompile(`password: "?([^"\s]+)`).FindAllStringSubmatch(string(clouds), -1) {
		expect.Equal(t, false, strings.Contains(fmt.Sprint(files), password[1]), "the bundle has a password")
	}
}

// TestABundleHasNoSecret draws secrets and puts them wherever people and programs put some.
func TestABundleHasNoSecret(t *testing.T) {
	dir, count := t.TempDir(), 0
	rapid.Check(t, func(r *rapid.T) {
		secrets := map[string]string{} // to where they are
		draw := func(where string) string {
			secret := rapid.StringMatching(`zq[A-Za-z0-9+_.~-]{12,40}qz`).Draw(r, where)
			secrets[secret] = where
			return secret
		}
		// said is a text that shows a secret.
		said := func(where string) string {
			secret := draw(where)
			return rapid.SampledFrom([]string{
				"the cloud refuses: password=" + secret, `POST failed: {"password": "` + strings.Repeat("several words ", 9) + secret + `"}`, `POST failed: {"auth": {"token": "` + secret + `"}}`,
				"GET https://user:" + secret + "@cloud.example.org/v3: refused", "OS_PASSWORD: " + secret, "Authorization: Bearer " + secret,
				"client_secret = '" + secret + "'", "X-Auth-Token: " + secret, "-----BEGIN PRIVATE KEY-----\n" + secret + "\n-----END PRIVATE KEY-----",
			}).Draw(r, "form of "+where)
		}
		s := supportedCluster()
		for _, object := range s.objects {
			of := object.(metav1.Object)
			annotations := map[string]string{corev1.LastAppliedConfigAnnotation: draw("last applied"), "example.org/note": draw("annotation")}
			maps.Copy(annotations, of.GetAnnotations())
			annotations["cloudteam.ztgame.com/paused"] = said("an annotation of ours")
			of.SetAnnotations(annotations)
			of.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: draw("manager")}})
			switch o := object.(type) {
			case *cloudteamv1.Network:
				o.Spec.Description = said("description")
				o.Status.Conditions[0].Status, o.Status.Conditions[0].Message = "False", said("condition")
			case *cloudteamv1.NetworkPort:
				o.Status.Conditions[0].Message = said("condition of a port")
			case *appsv1.Deployment:
				o.Spec.Template.Annotations["example.org/note"] = draw("annotation of the template")
				o.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Env: []corev1.EnvVar{{Name: "A", Value: draw("template")}}}}
				o.Status.Conditions[0].Message = said("condition of the Deployment")
			case *corev1.Pod:
				if len(o.Spec.Containers) == 0 {
					o.Spec.Containers = []corev1.Container{{Name: "a", Args: []string{draw("argument")}}}
				}
				o.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: draw("variable")}}
				o.Spec.Containers[0].Command = []string{draw("command")}
				o.Spec.Containers[0].Args = append(o.Spec.Containers[0].Args, "--url=https://user:"+draw("URL")+"@example.org")
				o.Status.Message = said("status")
				o.Status.ContainerStatuses = append(o.Status.ContainerStatuses, corev1.ContainerStatus{Name: "a",
					State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: draw("end of a log")}}})
			case *corev1.Event:
				o.Message = said("Event")
			}
		}
		probed := s.objects[10].(*corev1.Event).DeepCopy()
		probed.Name, probed.Reason, probed.Message = "probed", "Unhealthy", draw("probe")
		s.objects = append(s.objects, probed)
		s.logs += said("log") + "\n" + fmt.Sprintf("E0301 12:00:00 a.go:1] \"Failed\" err=%q\n", said("error")) + said("another log") + "\n"
		s.metrics += `cloud{url="https://user:` + draw("metric") + `@example.org"} 1` + "\n"
		if rapid.Bool().Draw(r, "broken") {
			why := said("error of the API server")
			s.refuses = func(a clienttesting.Action) error {
				if a.GetResource().Resource == "events" {
					return errors.New(why)
				}
				return nil
			}
		}
		count++
		out, code, _, files := s.bundle(t, filepath.Join(dir, fmt.Sprint(count)), "-n shop")
		var found []string
		for secret, where := range secrets {
			if strings.Contains(out+fmt.Sprint(files), secret[:10]) {
				found = append(found, where)
			}
		}
		if code != 0 || len(found) > 0 {
			for name, content := range files {
				for _, line := range regexp.MustCompile(`.*zq.*`).FindAllString(content, -1) {
					r.Logf("%s: %s", name, line)
				}
			}
			r.Fatalf("it ends with %d and shows %s", code, found)
		}
	})
}
