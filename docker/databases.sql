-- Beside the database of studies, which PostgreSQL's image creates, one for MLflow. Runs once, on an empty volume.
CREATE DATABASE tracking;
