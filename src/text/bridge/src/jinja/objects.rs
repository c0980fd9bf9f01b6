//! Objects that the library has not, or has otherwise than Python: namespaces and the views of a dict.

use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, Value};

/// namespace(): the one thing that a template can change. It neither compares nor prints by its contents, because
/// namespaces can hold each other.
#[derive(Default)]
pub struct Namespace(Mutex<Vec<(Arc<str>, Value)>>);

impl Namespace {
    fn lock(&self) -> MutexGuard<'_, Vec<(Arc<str>, Value)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, name: &str, value: Value) {
        let mut all = self.lock();
        let old = match all.iter_mut().find(|(known, _)| &**known == name) {
            Some((_, place)) => std::mem::replace(place, value),
            None => {
                all.push((name.into(), value));
                return;
            }
        };
        drop(all);
        drop(old); // may drop another namespace
    }

    pub fn entries(&self) -> Vec<(Value, Value)> {
        self.lock().iter().map(|(name, value)| (Value::from(name.clone()), value.clone())).collect()
    }

    pub fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("<Namespace>")
    }
}

impl Object for Namespace {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.lock().iter().find(|(name, _)| &**name == key).map(|(_, value)| value.clone())
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        other.downcast::<Self>().map(|other| Arc::as_ptr(self).cmp(&Arc::as_ptr(&other)))
    }
}

/// What map() and its like give: true, without a length, and empty once it has been read; or, `lasting`, a view of a
/// dict, which is none of that.
#[derive(Debug)]
pub struct Lazy {
    pub name: &'static str,
    lasting: bool,
    items: Mutex<Vec<Value>>,
}

impl Lazy {
    pub fn generator(items: Vec<Value>) -> Value {
        Value::from_object(Lazy { name: "generator", lasting: false, items: Mutex::new(items) })
    }

    pub fn view(name: &'static str, items: Vec<Value>) -> Value {
        Value::from_object(Lazy { name, lasting: true, items: Mutex::new(items) })
    }

    pub fn is_generator(value: &Value) -> bool {
        value.downcast_object_ref::<Self>().is_some_and(|lazy| !lazy.lasting)
    }

    /// Those not yet read.
    pub fn left(&self) -> Vec<Value> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Object for Lazy {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        if self.lasting {
            return Enumerator::Values(self.left());
        }
        Enumerator::Values(std::mem::take(&mut *self.items.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        self.lasting.then(|| self.left().len())
    }
}
