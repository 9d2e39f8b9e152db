package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
)

// EnvShared names the folder of a control plane that the suites of a whole run share. Share sets it. Without it, each
// suite starts its own.
const EnvShared = "TEST_CONTROLPLANE"

// The files of a shared control plane's folder, beside the programs.
const (
	adminFile, accountFile, fooFile = "admin.kubeconfig", "kubeconfig", "foo.kubeconfig"
	turnFile                        = "turn"
)

// leftBehind are the kinds, beside the project's, of which a suite may leave objects that the next suite's controllers
// would act on. Those that have others made come first.
var leftBehind = []schema.GroupVersionResource{
	{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"},
	{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstances"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Group: "apps", Version: "v1", Resource: "statefulsets"},
	{Group: "apps", Version: "v1", Resource: "replicasets"},
	{Version: "v1", Resource: "services"},
	{Version: "v1", Resource: "pods"},
	PolicyResource,
}

// Share starts a control plane with all components, kinds and rights, builds the programs under test, sets EnvShared,
// has use run suites, and stops it. A run that has one already uses that. It returns what use does, and an error where
// anything else failed.
func Share(use func() (code int, err error)) (code int, err error) {
	if os.Getenv(EnvShared) != "" {
		return use()
	}
	root, err := repository()
	if err != nil {
		return 1, err
	}
	folder, err := sharedFolder(root)
	if err != nil {
		return 1, err
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o750); err != nil {
		return 1, err
	}
	// Another run of the same checkout waits.
	release, err := takeTurn(context.Background(), folder+".lock")
	if err != nil {
		return 1, err
	}
	defer release()
	if err := os.RemoveAll(folder); err != nil {
		return 1, err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return 1, err
	}
	defer func() {
		if err == nil {
			err = os.RemoveAll(folder)
		}
	}()
	s, err := startSurroundings(Options{Components: AllComponents(), Policies: true, Machines: true}, folder)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	admin, err := os.ReadFile(s.AdminKubeconfig)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, adminFile), admin, 0o600)
	}
	if err == nil {
		err = os.Setenv(EnvShared, folder)
	}
	if err != nil {
		return 1, err
	}
	return use()
}

// sharedFolder gives the same path each time, so that go test finds in its cache what it has tried. When a file of
// config changes, which go test cannot see, it gives another one.
func sharedFolder(root string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	fmt.Fprintln(digest, root)
	for _, folder := range []string{"config", filepath.Dir(policiesCRD)} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			fmt.Fprintf(digest, "%s %x\n", path, sha256.Sum256(content))
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return filepath.Join(cache, "network-controller", "tests", hex.EncodeToString(digest.Sum(nil))[:16]), nil
}

// takeTurn waits until nobody else holds the file at path. Who dies gives it back.
func takeTurn(ctx context.Context, path string) (release func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for told := false; ; told = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
		}
		if !told {
			fmt.Fprintln(os.Stderr, "waiting for other tests, which hold", path)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// borrow takes the shared control plane in folder for one suite, as a new one. One suite has it at a time: controllers
// act on all objects that there are. The caller MUST call release.
func borrow(ctx context.Context, folder string) (s *Surroundings, release func() error, err error) {
	root, err := repository()
	if err != nil {
		return nil, nil, err
	}
	giveBack, err := takeTurn(ctx, filepath.Join(folder, turnFile))
	if err != nil {
		return nil, nil, fmt.Errorf("taking the control plane that %s names: %w", EnvShared, err)
	}
	programs := programsIn(folder)
	s = &Surroundings{
		ControlPlane: &ControlPlane{Root: root, AdminKubeconfig: filepath.Join(folder, adminFile)},
		Binary:       programs.Controller, controlPlane: programs.ControlPlane,
		Kubeconfig: filepath.Join(folder, accountFile), FooKubeconfig: filepath.Join(folder, fooFile),
	}
	err = s.connect()
	if err == nil {
		err = Poll(nil, Patience, 100*time.Millisecond, func() error { return s.tidy(ctx) })
	}
	if err == nil {
		err = s.ReleaseLeases(ctx)
	}
	if err != nil {
		giveBack()
		return nil, nil, fmt.Errorf("making the control plane that %s names as new: %w", EnvShared, err)
	}
	return s, func() error { giveBack(); return nil }, nil
}

// tidy deletes what earlier suites left behind, and returns an error until all of it is gone. Namespaces stay: to empty
// one takes the API server a hundred requests.
func (c *ControlPlane) tidy(ctx context.Context) error {
	client, err := dynamic.NewForConfig(c.Admin)
	if err != nil {
		return err
	}
	kinds := slices.Clone(leftBehind)
	for _, version := range []schema.GroupVersion{cloudteamv1.SchemeGroupVersion, v1alpha1.SchemeGroupVersion} {
		served, err := c.Kube.Discovery().ServerResourcesForGroupVersion(version.String())
		if err != nil {
			return fmt.Errorf("asking for the kinds of %s: %w", version, err)
		}
		for _, kind := range served.APIResources {
			if !strings.Contains(kind.Name, "/") { // no subresource
				kinds = append(kinds, version.WithResource(kind.Name))
			}
		}
	}
	var failures []error
	for _, resource := range kinds {
		list, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing %s: %w", resource.Resource, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			if resource.Resource == "services" && object.GetName() == "kubernetes" {
				continue
			}
			of := client.Resource(resource).Namespace(object.GetNamespace())
			if len(object.GetFinalizers()) > 0 {
				_, err = of.Patch(ctx, object.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
					metav1.PatchOptions{})
			}
			if err == nil || apierrors.IsNotFound(err) {
				err = of.Delete(ctx, object.GetName(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
			}
			if apierrors.IsNotFound(err) {
				continue // a patch may end what was being deleted
			}
			if err == nil {
				err = errors.New("was there a moment ago")
			}
			failures = append(failures, fmt.Errorf("%s %s/%s: %w", resource.Resource, object.GetNamespace(), object.GetName(),
				err))
		}
	}
	return errors.Join(failures...)
}

// LongLease are the arguments of a controller that takes part in an election. It exits when its Lease is not renewed in
// time, and these times are long enough for a machine that is busy with other things. Who kills it calls ReleaseLeases.
func LongLease() []string {
	return []string{
		"--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=45s", "--leader-elect-retry-period=500ms",
	}
}

// ReleaseLeases ends the terms of leaders that are gone, so that the next one need not wait. The Leases stay, because
// they count the terms: a leader that counts from one again would take the last one's word for another cluster's.
func (c *ControlPlane) ReleaseLeases(ctx context.Context) error {
	for _, name := range []string{AccountName, FooAccountName} {
		_, err := c.Kube.CoordinationV1().Leases(AccountName).Patch(ctx, name, types.MergePatchType,
			[]byte(`{"spec":{"holderIdentity":null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
