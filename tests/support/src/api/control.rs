//! What a test tells the server: who may come in, what it holds, and what it does instead.

use serde_json::Value;

use super::{Answer, Api, Bound, Door, Request, User, answer::Script, server};
use crate::pki::Pair;

impl Api {
    // === who may come in ===

    /// Accepts this bearer token as this user, e.g. `system:serviceaccount:linkerd-cni:linkerd-cni`.
    pub fn accept_token(&self, token: &str, user: &str) {
        self.shared
            .state()
            .identities
            .accept_token(token, User::named(user));
    }

    /// Answers 401 to this token from now on.
    pub fn refuse_token(&self, token: &str) {
        self.shared.state().identities.refuse_token(token);
    }

    /// Accepts this client certificate as this user.
    pub fn accept_certificate(&self, pair: &Pair, user: &str) {
        self.shared
            .state()
            .identities
            .accept_certificate(&server::first_der(&pair.certificate), User::named(user));
    }

    /// A token as TokenRequest gives out, for a lifetime in seconds that may lie in the past.
    pub fn mint(&self, namespace: &str, account: &str, bound: Option<&Bound>, seconds: i64) -> String {
        self.shared
            .state()
            .identities
            .mint(namespace, account, bound, &[], seconds)
            .0
    }

    /// Signs with a new key from now on; tokens of the old ones stay good.
    pub fn rotate_signing_key(&self) {
        self.shared.state().identities.rotate_key();
    }

    /// Tokens signed by any key but the present one are refused from now on.
    pub fn forget_old_keys(&self) {
        self.shared.state().identities.forget_old_keys();
    }

    /// 403 for this verb on this resource, e.g. `("create", "serviceaccounts/token")`, until [`Api::allow`].
    pub fn forbid(&self, verb: &str, resource: &str) {
        self.shared
            .state()
            .forbidden
            .push((verb.to_owned(), resource.to_owned()));
    }

    /// Takes [`Api::forbid`] back.
    pub fn allow(&self, verb: &str, resource: &str) {
        self.shared
            .state()
            .forbidden
            .retain(|f| f != &(verb.to_owned(), resource.to_owned()));
    }

    // === what it holds ===

    /// Stores an object under its path, e.g. `/apis/apps/v1/namespaces/linkerd-cni/daemonsets/linkerd-cni`. A uid is
    /// added when it has none.
    pub fn put(&self, path: &str, object: Value) {
        self.shared.state().objects.put(path, object);
    }

    /// Stores a pod; its namespace and name are written into it.
    pub fn put_pod(&self, namespace: &str, name: &str, mut pod: Value) {
        pod["metadata"]["namespace"] = namespace.into();
        pod["metadata"]["name"] = name.into();
        self.put(&format!("/api/v1/namespaces/{namespace}/pods/{name}"), pod);
    }

    /// Stores a namespace with these annotations.
    pub fn put_namespace(&self, name: &str, annotations: Value) {
        let object = serde_json::json!({"kind": "Namespace", "apiVersion": "v1",
            "metadata": {"name": name, "annotations": annotations}, "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"}});
        self.put(&format!("/api/v1/namespaces/{name}"), object);
    }

    /// Stores a node of this uid.
    pub fn put_node(&self, name: &str, uid: &str) {
        let object =
            serde_json::json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "uid": uid}});
        self.put(&format!("/api/v1/nodes/{name}"), object);
    }

    /// What `resourceVersion=0` shows under this path instead of the stored object: an older one, or none (404), until
    /// the path is put again.
    pub fn set_cached(&self, path: &str, object: Option<Value>) {
        self.shared.state().objects.set_cached(path, object);
    }

    /// The stored object.
    pub fn object(&self, path: &str) -> Option<Value> {
        self.shared.state().objects.find(path, false).cloned()
    }

    /// Every stored object whose path starts so, e.g. the Events of a namespace.
    pub fn objects_under(&self, prefix: &str) -> Vec<Value> {
        self.shared.state().objects.under(prefix)
    }

    /// Removes an object; tokens bound to it are refused from now on.
    pub fn remove(&self, path: &str) {
        self.shared.state().objects.remove(path);
    }

    // === what it does instead ===

    /// Answers so to a method and a path (no query; `*` stands for any path) until [`Api::clear_answers`].
    pub fn set_answer(&self, method: &str, path: &str, answer: Answer) {
        self.shared
            .state()
            .scripts
            .push(Script::new(method, path, answer, None));
    }

    /// Answers so to the next `times` matching requests; earlier scripts for the same request go first.
    pub fn set_answer_times(&self, method: &str, path: &str, answer: Answer, times: usize) {
        self.shared
            .state()
            .scripts
            .push(Script::new(method, path, answer, Some(times)));
    }

    /// Forgets every scripted answer.
    pub fn clear_answers(&self) {
        self.shared.state().scripts.clear();
    }

    /// Asks this function before the built-in routes (after authentication and permissions).
    pub fn add_route(&self, route: impl Fn(&Request) -> Option<Answer> + Send + 'static) {
        self.shared.state().routes.push(Box::new(route));
    }

    /// What happens to a new connection.
    pub fn set_door(&self, door: Door) {
        self.shared.state().door = door;
    }
}
